"""Gradients judged on their own inputs: every wrong one and only those, and none for what is wrong forward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detection.mutants.patch import Patch
from qwen3_golden import GOLDEN_ROOT, Recording, read
from qwen3_parity.blame import OpVerdict, replay
from qwen3_parity.blame.way_back import REASON
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.recording.ours.network import EncoderDecoder, factory
from qwen3_parity.recording.record import record

NAMES = ["training/tied", "training/untied", "training/causal"]


def replayed(name: str, out: Path, seed: Callable[[Patch], None] | None = None) -> list[OpVerdict]:
    """Our implementation with a seeded bug, every tap of it judged alone."""
    golden, patches = read(GOLDEN_ROOT / "cases" / f"{name}.pb"), list[Patch]()

    def build(case: Any, checkpoints: Any) -> EncoderDecoder:
        runner = factory()(case, checkpoints)
        assert isinstance(runner, EncoderDecoder)
        patches.append(Patch(lambda: runner))
        if seed is not None:
            seed(patches[0])
        return runner

    try:
        record(golden, out / "candidate.pb", build)
    finally:
        for patch in patches:
            patch.undo()
    return judged(golden, read(out / "candidate.pb"))


def judged(golden: Recording, candidate: Recording) -> list[OpVerdict]:
    return replay(candidate, weights_of(candidate, GOLDEN_ROOT / "checkpoints"), golden)


@pytest.mark.parametrize("name", NAMES)
def test_every_gradient_is_judged_and_none_of_ours_is_blamed(name: str, tmp_path: Path) -> None:
    verdicts = [verdict for verdict in replayed(name, tmp_path) if verdict.name.startswith(("gradient.", "loss"))]
    assert len(verdicts) >= 33
    assert [verdict.name for verdict in verdicts if verdict.reason or not verdict.passed] == []
    assert max(verdict.share for verdict in verdicts) < 0.5


def test_a_fault_forward_excuses_the_gradients_of_its_layer_and_no_others(tmp_path: Path) -> None:
    def seed(patch: Patch) -> None:
        patch.result(patch.model.decoder.layers[1].merged_attn, "query_heads", lambda x: 1.01 * x)

    verdicts = replayed("training/tied", tmp_path, seed)
    assert [verdict.name for verdict in verdicts if not verdict.passed] == ["decoder.layers.1.output"]
    excused = {verdict.name for verdict in verdicts if verdict.reason == REASON}
    assert "gradient.decoder.layers.1.merged_attn.q_proj.weight" in excused
    assert "gradient.decoder.layers.0.output" in excused  # what layer 1 passes back
    assert not excused & {"gradient.logits", "gradient.decoder.norm", "gradient.decoder.layers.0.mlp.up_proj.weight"}
    assert not any(name.startswith("gradient.encoder.layers.") for name in excused)


@pytest.mark.parametrize(
    "name",
    ["gradient.decoder.layers.0.merged_attn.k_proj.weight", "gradient.encoder.layers.1.input_layernorm.weight", "loss"],
)
def test_a_value_that_is_a_thousandth_off_is_blamed_alone(name: str, tmp_path: Path) -> None:
    golden = read(GOLDEN_ROOT / "cases" / "training" / "untied.pb")
    tensors = [
        type(item)(item.info, (item.array * np.float32(1.001)).astype(np.float32)) if item.info.name == name else item
        for item in golden
    ]
    candidate = Recording(golden.case, golden.provenance, golden.run, tensors, golden.parameters)
    assert [verdict.name for verdict in judged(golden, candidate) if not verdict.passed] == [name]


def test_where_the_output_gradient_is_wrong_what_follows_from_it_is_right(tmp_path: Path) -> None:
    golden = read(GOLDEN_ROOT / "cases" / "training" / "tied.pb")
    tensors = [
        type(item)(item.info, (item.array * np.float32(2)).astype(np.float32))
        if item.info.name.startswith("gradient.") and item.info.name != "gradient.logits"
        else item
        for item in golden
    ]
    candidate = Recording(golden.case, golden.provenance, golden.run, tensors, golden.parameters)
    wrong = {verdict.name for verdict in judged(golden, candidate) if not verdict.passed}
    # Both read gradient.logits; the rest read one another.
    assert wrong == {"gradient.decoder.norm", "gradient.shared.weight"}
