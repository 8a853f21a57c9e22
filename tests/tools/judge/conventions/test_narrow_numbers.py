"""A run in half precision that was saved as float32 is judged as what its numbers are; a word alone widens nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pb, read, tensor, to_bfloat16, to_float32
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose

ENGINE: dict[str, Any] = {"source": "engine.pb", "digest": b"", "provenance": pb.Provenance(producer="engine")}

Change = Callable[[Tensor, Array], Array]


def golden_of(case: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{case}.pb")


def weights(golden: Recording) -> dict[str, Array]:
    return dict(weights_of(golden, GOLDEN_ROOT / "checkpoints"))


def saved(golden: Recording, arithmetic: int, change: Change = lambda _, values: values) -> Recording:
    """The golden as a tool saves it after `.float()`, under this arithmetic."""
    run = pb.Run.FromString(golden.run.SerializeToString())
    run.arithmetic = arithmetic  # type: ignore[assignment]
    tensors = [
        tensor(item.info.name, change(item, item.values()), step=item.info.step, op=item.info.op) for item in golden
    ]
    return replace(golden, tensors=tensors, run=run, parameters=(), **ENGINE)


def in_bfloat16(item: Tensor, values: Array) -> Array:
    named = item.is_float and not item.info.name.startswith("input.") and "inv_freq" not in item.info.name
    return to_float32(to_bfloat16(values)) if named else values


def scaled(item: Tensor, values: Array) -> Array:
    wrong = item.info.name.endswith("0.mlp.act")
    return to_float32(to_bfloat16(values * np.float32(1.25))) if wrong else values


@pytest.mark.parametrize("case", ["llama/bfloat16", "encdec/bfloat16"])
def test_a_bfloat16_run_that_was_saved_as_float32_is_recognised(case: str) -> None:
    golden = golden_of(case)
    verdicts = check(golden, saved(golden, pb.ARITHMETIC_F32), weights(golden))
    assert verdicts.word == "parity" and verdicts.arithmetic == pb.ARITHMETIC_BF16
    assert len(verdicts.notes) == 1 and "is one of bfloat16" in verdicts.notes[0]


@pytest.mark.parametrize("case", ["llama/bfloat16", "encdec/bfloat16"])
def test_a_run_that_says_bfloat16_may_be_stored_in_float32(case: str) -> None:
    golden = golden_of(case)

    def unrounded(item: Tensor, values: Array) -> Array:  # the sum before it was rounded
        return values * np.float32(1 + 2**-12) if item.info.name.endswith("0.mlp.down_proj") else values

    verdicts = check(golden, saved(golden, pb.ARITHMETIC_BF16, unrounded), weights(golden))
    assert verdicts.word == "parity" and not verdicts.notes


def test_a_wrong_op_of_such_a_run_is_blamed_alone() -> None:
    golden = golden_of("llama/bfloat16")
    diagnosis = diagnose(golden, saved(golden, pb.ARITHMETIC_F32, scaled), weights(golden))
    blamed = {fault.fault.place for fault in diagnosis.faults} | {tap.place for tap in diagnosis.misplaced}
    assert blamed == {"decoder.layers.{layer}.mlp.act"} and diagnosis.verdicts.notes


def test_bfloat16_numbers_beside_a_float32_golden_are_said_to_be_that() -> None:
    golden = golden_of("decoder/plain")
    verdicts = check(golden, saved(golden, pb.ARITHMETIC_F32, in_bfloat16), weights(golden))
    assert verdicts.word == "divergence" and verdicts.arithmetic == pb.ARITHMETIC_F32
    assert len(verdicts.notes) == 1
    assert "it was run or saved in bfloat16, and the golden is of F32" in verdicts.notes[0]


def test_one_number_of_float32_is_enough_to_be_float32() -> None:
    golden = golden_of("llama/bfloat16")

    def nearly(item: Tensor, values: Array) -> Array:
        return values * np.float32(1 + 2**-20) if item.info.name == "logits" else values

    verdicts = check(golden, saved(golden, pb.ARITHMETIC_F32, nearly), weights(golden))
    assert not verdicts.notes and verdicts.arithmetic == pb.ARITHMETIC_F32


def test_a_float32_run_says_nothing_of_its_numbers() -> None:
    golden = golden_of("decoder/plain")
    assert not check(golden, saved(golden, pb.ARITHMETIC_F32), weights(golden)).notes


def test_a_candidate_that_says_bfloat16_gets_no_wider_budget_than_the_golden_has() -> None:
    golden = golden_of("decoder/plain")

    def change(item: Tensor, values: Array) -> Array:
        return values * np.float32(1 + 2**-11) if item.info.name.endswith("1.output") else values

    def own_shares(arithmetic: int) -> dict[str, float]:
        engine = saved(golden, arithmetic, change)
        taps = [item for item in engine if item.info.name.startswith("input.") or item.info.name.endswith(".output")]
        verdicts = check(golden, replace(engine, tensors=taps), weights(golden))
        return {tap.where: tap.alone.share for tap in verdicts.taps if tap.alone is not None}

    shares = own_shares(pb.ARITHMETIC_F32)
    assert max(shares.values()) > 1 and own_shares(pb.ARITHMETIC_BF16) == shares
