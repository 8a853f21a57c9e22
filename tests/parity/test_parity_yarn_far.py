"""YaRN at positions beyond 100,000: Hugging Face, the specification and our implementation agree within budgets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from detection.honest.ports import VARIATIONS
from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity.check import check
from qwen3_parity.recording.ours.network import factory, golden_dtype
from qwen3_parity.recording.record import record
from qwen3_reference.capture.record import record as record_reference
from qwen3_reference.cases.networks import case
from qwen3_spec import ops

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A YaRN case at positions of 130,000 and on."""
    path = tmp_path_factory.mktemp("far") / "golden.pb"
    far = replace(case("decoder/yarn_stated"), name="decoder/far", first_position=130_000)
    record_reference(far, CHECKPOINTS, path)
    return read(path)


def test_the_positions_are_far(golden: Recording) -> None:
    assert golden["decoder.position_ids", 0].array.min() >= 130_000
    assert golden.case.config.rope_scaling.attention_factor == 1.07


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
def test_our_implementation_agrees_at_far_positions(golden: Recording, backend: str, tmp_path: Path) -> None:
    record(golden, tmp_path / "ours.pb", factory(backend, golden_dtype(golden)), checkpoints=CHECKPOINTS)
    verdicts = check(golden, tmp_path / "ours.pb")
    assert verdicts.exit_code == 0, verdicts.problems


@pytest.mark.parametrize("name", ["float64", "sequential_float32"])
def test_the_specification_agrees_at_far_positions(golden: Recording, name: str, tmp_path: Path) -> None:
    build = next(variation.build for variation in VARIATIONS if variation.name == name)
    record(golden, tmp_path / "spec.pb", build(golden_dtype(golden)), checkpoints=CHECKPOINTS)
    verdicts = check(golden, tmp_path / "spec.pb")
    assert verdicts.exit_code == 0, verdicts.problems


def test_plain_frequencies_are_far_off_there(golden: Recording, tmp_path: Path) -> None:
    config = golden.case.config
    plain = ops.inv_freq.forward(config.head_dim, config.rope_theta)
    tensors = [replace(item, array=plain.astype(np.float32)) if item.info.op == "inv_freq" else item for item in golden]
    verdicts = check(golden, replace(golden, tensors=tensors, run=pb.Run.FromString(golden.run.SerializeToString())))
    assert verdicts.exit_code == 1  # cos and sin are not those of these frequencies either
    wrong = {f"decoder.{name}" for name in ("inv_freq", "cos", "sin")}
    assert {tap.name for tap in verdicts.taps if not tap.passed} == wrong
