"""A choice is right or wrong: it is never taken for noise, nor for a tap that was recorded at another place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pb, read, tensor
from qwen3_parity.blame.absorbed import absorbed
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.blame.values import Values
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.judge.op_verdict import OpVerdict

GOLDEN = read(GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb")
WEIGHTS = weights_of(GOLDEN, GOLDEN_ROOT / "checkpoints")


def candidate(change: Callable[[Tensor], Array]) -> Recording:
    tensors = [tensor(item.info.name, change(item), step=item.info.step, op=item.info.op) for item in GOLDEN]
    return replace(GOLDEN, tensors=tensors, source="engine.pb")


def from_1(item: Tensor) -> Array:
    return item.array + 1 if item.info.name == "decoder.position_ids" else item.array


def narrow_from_1(item: Tensor) -> Array:
    return from_1(item).astype(np.int32) if item.info.name == "decoder.position_ids" else item.array


@pytest.mark.parametrize("change", [from_1, narrow_from_1], ids=lambda change: change.__name__)
def test_positions_from_1_beside_angles_from_0_are_a_fault_and_no_misplaced_tap(
    change: Callable[[Tensor], Array],
) -> None:
    diagnosis = diagnose(GOLDEN, candidate(change), WEIGHTS)
    assert [fault.fault.place for fault in diagnosis.faults] == ["decoder.position_ids"] and not diagnosis.misplaced
    assert diagnosis.verdicts.word == "divergence"


def test_a_float_that_was_recorded_at_another_place_is_still_none() -> None:
    def change(item: Tensor) -> Array:
        return item.array * 2 if item.info.name.endswith("mlp.gate_proj") else item.array

    diagnosis = diagnose(GOLDEN, candidate(change), WEIGHTS)
    assert [misplaced.place for misplaced in diagnosis.misplaced] == [
        "decoder.layers.{layer}.mlp.gate_proj"
    ] and not diagnosis.faults


def test_a_choice_is_not_computed_through() -> None:
    """As of a router's index and the weights that go with it: the pair is wrong where either is another's."""
    key = "decoder.layers.0.merged_attn.q_rope", 0
    verdicts = [
        OpVerdict("decoder.position_ids", 0, "position_ids"),
        OpVerdict("decoder.cos", 0, "cos"),
        OpVerdict(*key, "rope", share=3.0),
    ]
    dropped = set[str]()

    class Spy(TapJudge):
        def evidence(self, item: Tensor) -> Evidence | str:
            dropped.update(self.values.dropped)
            return "only asked"

    reads = dict.fromkeys(((verdict.name, verdict.step) for verdict in verdicts), ()) | {
        key: ("decoder.position_ids", "decoder.cos")
    }
    absorbed(verdicts, reads, Spy.of(GOLDEN, WEIGHTS, GOLDEN))
    assert dropped == {"decoder.cos"}


def test_integers_alone_are_choices() -> None:
    values = Values(GOLDEN, WEIGHTS, GOLDEN)
    kinds = {item.info.dtype: values.is_choice(*item.key) for item in GOLDEN}
    assert kinds == {pb.I64: True, pb.BOOL: False, pb.F32: False}
