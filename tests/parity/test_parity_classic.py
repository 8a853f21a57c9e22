"""Our classic encoder on its goldens: it passes, and one changed number anywhere does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, Tensor, pb, read
from qwen3_parity import check
from qwen3_parity.blame import replay
from qwen3_parity.checkpoints.weights import checkpoint_directories, weights_of
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.ours.classic import ClassicEncoder
from qwen3_parity.recording.ours.network import factory
from qwen3_parity.recording.record import record

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
NAMES = ("classic/pre_norm", "classic/post_norm", "classic/bert")
GOLDENS = {name: read(GOLDEN_ROOT / "cases" / f"{name}.pb") for name in NAMES}
PARAMETERS = [(name, parameter.name) for name, golden in GOLDENS.items() for parameter in golden.parameters]
FEW = [
    (name, pair)
    for name, pair in PARAMETERS
    if (".layers." not in pair) or (name, ".1." in pair) == ("classic/bert", True)
]
"""One layer, and what stands outside of layers."""
Change = Callable[[ClassicEncoder], None]


def run(name: str, path: Path, change: Change = lambda runner: None, backend: str = "eager") -> Recording:
    """Our recording of a case, after a change of the loaded model."""

    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> ClassicEncoder:
        runner = factory(backend)(case, checkpoints)
        assert isinstance(runner, ClassicEncoder)
        change(runner)
        return runner

    record(GOLDENS[name], path / "candidate.pb", build)
    return read(path / "candidate.pb")


def wrong(verdicts: Verdicts) -> list[str]:
    return [tap.name for tap in verdicts.taps if not tap.passed]


def blamed(name: str, candidate: Recording) -> set[str]:
    verdicts = replay(candidate, weights_of(GOLDENS[name], CHECKPOINTS), GOLDENS[name])
    return {verdict.name for verdict in verdicts if not verdict.passed}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", ["eager", "sdpa"])
def test_our_classic_encoder_is_the_reference(name: str, backend: str, tmp_path: Path) -> None:
    candidate = run(name, tmp_path, backend=backend)
    verdicts = check(GOLDENS[name], candidate)
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))
    assert bool(verdicts.not_materialised) == (backend == "sdpa")
    assert not blamed(name, candidate)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [pytest.param(*pair, marks=() if pair in FEW else pytest.mark.slow) for pair in PARAMETERS],
)
def test_one_changed_element_of_a_parameter_is_found_and_its_op_is_blamed(
    name: str, parameter: str, tmp_path: Path
) -> None:
    golden = GOLDENS[name]

    def change(runner: ClassicEncoder) -> None:
        values = runner.parameters[parameter]
        at = (0,) * values.dim()
        if "embed" in parameter:  # a row that a real token reads
            inputs = {kind: golden[f"input.encoder_{kind}_ids", 0].array[0, 1] for kind in ("input", "position")}
            at = int(inputs["position" if "positions" in parameter else "input"]), 0
        with torch.no_grad():
            values[at] += 0.01

    candidate = run(name, tmp_path, change)
    verdicts = check(golden, candidate)
    assert any("checkpoint as loaded differs" in str(problem) for problem in verdicts.problems)
    names = wrong(verdicts)
    if not parameter.endswith("qkv_proj.bias"):  # a key's bias moves a row's scores alike, its own tap shows it
        assert set(names) & {"pre_norm.norm", "post_norm.last_hidden_state"}
    assert blamed(name, candidate) == {parameter.rpartition(".")[0]}


@pytest.mark.parametrize("name", NAMES)
def test_the_classic_output_cannot_be_left_out(name: str) -> None:
    golden = GOLDENS[name]
    last = "pre_norm.norm" if name == "classic/pre_norm" else "post_norm.last_hidden_state"
    run_without = pb.Run.FromString(golden.run.SerializeToString())
    run_without.materialised.remove(last)
    tensors = [item for item in golden if item.info.name != last]
    candidate = Recording(golden.case, golden.provenance, run_without, tensors)
    verdicts = check(golden, candidate)
    assert (verdicts.word, verdicts.no_results) == ("partial", [f"{last} (step 0)"])


def moved(golden: Recording, name: str, row: int, by: float) -> Recording:
    """The golden with one batch row of a tap changed."""
    values = np.array(golden[name, 0].array)
    values[row] += by
    tensors = [Tensor(t.info, values) if t.info.name == name else t for t in golden]
    return Recording(golden.case, golden.provenance, golden.run, tensors, golden.parameters)


def test_a_row_of_padding_alone_is_judged_for_finiteness_only() -> None:
    golden = GOLDENS["classic/pre_norm"]
    assert check(golden, moved(golden, "pre_norm.norm", 2, 1.0)).exit_code == 0
    assert wrong(check(golden, moved(golden, "pre_norm.norm", 2, np.nan))) == ["pre_norm.norm"]
    assert wrong(check(golden, moved(golden, "pre_norm.norm", 0, 1.0))) == ["pre_norm.norm"]


def test_a_hidden_key_has_a_probability_of_exactly_0() -> None:
    golden = GOLDENS["classic/bert"]
    name = "post_norm.layers.0.self_attn.probs"
    values = np.array(golden[name, 0].array)
    assert values[1, 0, 0, 4] == 0
    values[1, 0, 0, 4] = 1e-20
    tensors = [Tensor(t.info, values) if t.info.name == name else t for t in golden]
    verdicts = check(golden, Recording(golden.case, golden.provenance, golden.run, tensors, golden.parameters))
    assert [str(problem.rule) for problem in verdicts.problems] == ["probability of a hidden key is not exactly 0"]


@pytest.mark.parametrize("name", NAMES)
def test_our_parameters_have_the_canonical_names(name: str) -> None:
    golden = GOLDENS[name]
    runner = factory()(golden.case, checkpoint_directories(golden.case, CHECKPOINTS))
    assert isinstance(runner, ClassicEncoder)
    assert set(runner.parameters) == {parameter.name for parameter in golden.parameters}


def test_our_classic_encoder_refuses_another_networks_checkpoint() -> None:
    golden = GOLDENS["classic/pre_norm"]
    with pytest.raises(ParityError, match="another network's"):
        factory()(golden.case, {"encoder": CHECKPOINTS / "classic-post-norm"})
