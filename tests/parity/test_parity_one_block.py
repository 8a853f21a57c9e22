"""A port that has one block and nothing else is recorded, judged and diagnosed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detection.mutants import catalogue
from detection.mutants.isolated import run_case
from detection.mutants.judged import by_diagnosis
from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read
from qwen3_parity import Verdicts, check
from qwen3_parity.blame import replay
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.recording.record import record
from qwen3_parity.recording.tap_sets import TAP_SETS

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
BLOCKS = sorted((GOLDEN_ROOT / "cases" / "block").glob("*.pb"))
CAUSAL = GOLDEN_ROOT / "cases" / "block" / "causal.pb"


@pytest.fixture
def port() -> Any:
    """The NumPy port, of which one layer is used."""
    spec = importlib.util.spec_from_file_location("block_port", GOLDEN_ROOT.parent / "examples" / "numpy_port.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def one_block(port: Any) -> Callable[[pb.Case, Mapping[str, Path]], Any]:
    """A port of `Qwen3.block` alone: the tensors of layer 0, no embeddings, no final norm, no head."""

    def factory(case: pb.Case, checkpoints: Mapping[str, Path]) -> Any:
        model = port.Qwen3(checkpoints["decoder"], case.config)
        model.weights = {name: array for name, array in model.weights.items() if name.startswith("model.layers.0.")}

        def run(case: pb.Case, inputs: Mapping[str, Any], tap: Any, records: Any) -> None:
            states, stop, cache = inputs["input.decoder_inputs_embeds"], 0, port.Cache()
            for step, length in enumerate(case.steps):
                now, stop = slice(stop, stop + length), stop + length
                tables = inputs["decoder.cos"][:, now], inputs["decoder.sin"][:, now]
                padding = inputs["input.decoder_attention_mask"][:, :stop]

                def show(name: str, value: Any, step: int = step) -> None:
                    if records(name):
                        tap(name, step, value)

                model.block(0, states[:, now], tables, padding, cache, show)

        patterns = [pattern for pattern in read(CAUSAL).run.materialised if ".layers." in pattern]
        run.run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=patterns)  # type: ignore[attr-defined]
        return run

    return factory


def judge(port: Any, tmp_path: Path, taps: tuple[str, ...] = ()) -> tuple[Verdicts, Recording]:
    record(read(CAUSAL), tmp_path / "port.pb", one_block(port), taps=taps)
    return check(CAUSAL, tmp_path / "port.pb"), read(tmp_path / "port.pb")


@pytest.mark.parametrize("path", BLOCKS, ids=lambda path: path.stem)
def test_a_block_holds_nothing_behind_or_before_its_layer(path: Path) -> None:
    golden = read(path)
    stack = golden.case.checkpoint[0].role
    names = {item.info.name for item in golden}
    tables = {f"{stack}.{name}" for name in ("position_ids", "inv_freq", "cos", "sin")}
    rest = {name for name in names if not name.startswith(("input.", f"{stack}.layers.0."))}
    assert rest == tables and f"input.{stack}_inputs_embeds" in names and f"{stack}.layers.0.output" in names
    assert golden.case.mode == pb.BLOCK and all(
        f"{stack}.layers.0." in parameter.name for parameter in golden.parameters
    )


def test_a_port_of_one_block_is_at_parity(port: Any, tmp_path: Path) -> None:
    verdicts, recording = judge(port, tmp_path)
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))
    assert verdicts.compared == 69 and not verdicts.identical
    assert all(verdict.passed for verdict in replay(recording, weights_of(recording, CHECKPOINTS), read(CAUSAL)))


def test_a_block_shown_by_its_output_alone_is_at_parity(port: Any, tmp_path: Path) -> None:
    verdicts, recording = judge(port, tmp_path, ("*.output",))
    assert verdicts.exit_code == 0 and verdicts.compared == 3
    assert all(verdict.passed for verdict in replay(recording, weights_of(recording, CHECKPOINTS), read(CAUSAL)))


def test_a_block_without_its_output_has_shown_nothing(port: Any, tmp_path: Path) -> None:
    verdicts, _ = judge(port, tmp_path, ("*.q_proj",))
    assert verdicts.exit_code == 1
    assert any("decoder.layers.0.output" in name for name in verdicts.no_results)


def test_a_wrong_residual_is_found_in_a_block_that_shows_its_output_alone(
    port: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlp = port.Qwen3.mlp
    monkeypatch.setattr(port.Qwen3, "mlp", lambda self, layer, x, tap: mlp(self, layer, x, tap) + x)
    verdicts, recording = judge(port, tmp_path, (*TAP_SETS["layer"],))
    assert verdicts.exit_code == 1
    ops = replay(recording, weights_of(recording, CHECKPOINTS), read(CAUSAL))
    assert {verdict.name for verdict in ops if not verdict.passed} == {"decoder.layers.0.output"}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("QKN-02", "causal"),
        ("QKN-02", "bidirectional"),
        ("own/unnormed-attention", "bidirectional"),
        ("RES-05", "causal"),
        ("MLP-01/weights", "causal"),
    ],
)
def test_a_bug_of_the_catalogue_is_caught_blamed_and_named_in_one_block(name: str, case: str) -> None:
    mutant = next(entry for entry in catalogue() if entry.name == name)
    outcome = run_case(mutant, f"block/{case}", by_diagnosis)
    assert outcome.caught and not outcome.failure
    assert outcome.blamed and not outcome.innocents
    assert set(outcome.diagnoses.values()) <= mutant.named


def test_hidden_states_that_are_looked_up_again_are_not_the_case(port: Any, tmp_path: Path) -> None:
    golden = read(GOLDEN_ROOT / "cases" / "decoder" / "inputs_embeds.pb")

    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> Any:
        plain = port.factory(case, checkpoints)

        def run(case: pb.Case, inputs: Mapping[str, Any], tap: Any, records: Any) -> None:
            doubled = inputs["input.decoder_inputs_embeds"] * np.float32(2)
            plain(case, {**inputs, "input.decoder_inputs_embeds": doubled}, tap, records)

        return run

    record(golden, tmp_path / "port.pb", build)
    verdicts = check(golden, read(tmp_path / "port.pb"))
    assert verdicts.exit_code == 1 and verdicts.first_bad is not None
    assert verdicts.first_bad.name == "decoder.layers.0.input"


def test_one_block_is_written_as_the_schema_that_knows_it(tmp_path: Path) -> None:
    from qwen3_golden.recording import minor_of

    assert minor_of(read(CAUSAL).case) == 4
    with pytest.raises(ParityError, match="mode"):
        case = pb.Case.FromString(read(CAUSAL).case.SerializeToString())
        case.mode = pb.CAUSAL
        candidate = read(CAUSAL)
        check(CAUSAL, Recording(case, candidate.provenance, candidate.run, candidate.tensors))
