"""A run in bfloat16 or float16 whose numbers a tool saved as float32: they say themselves what they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pb, place, to_bfloat16, to_float32
from qwen3_parity.judge.conventions.names import listed
from qwen3_spec.ops import OPS

_NARROW: Mapping[int, tuple[int, str]] = {
    pb.ARITHMETIC_BF16: (pb.BF16, "bfloat16"),
    pb.ARITHMETIC_F16: (pb.F16, "float16"),
}
_WIDER = (pb.F32, pb.F64)
_ENOUGH = 64
"""Numbers, none of them 0, that are not of a narrower type by chance."""
_GIVEN = ("input", "inv_freq", "cos", "sin")
"""Ops whose numbers say nothing of the arithmetic of a run: they are computed in float32 everywhere."""


def narrow_numbers(
    actual: Recording, expected: Recording, _weights: Mapping[str, Array] | None
) -> tuple[Recording, list[str]]:
    """A float32 recording of which every number is a bfloat16 or float16 one has that arithmetic, if the golden has.

    Where the golden has another, the note says what the numbers are.
    """
    computed = [item for item in actual if item.is_float and _is_computed(item, expected)]
    if actual.run.arithmetic in _NARROW or not computed or any(item.info.dtype not in _WIDER for item in computed):
        return actual, []
    arithmetic = next((narrow for narrow in _NARROW if _are_all(computed, narrow)), None)
    if arithmetic is None:
        return actual, []
    name = _NARROW[arithmetic][1]
    kinds = listed(sorted({pb.DType.Name(item.info.dtype) for item in computed}))
    said = f"every number of this recording, stored as {kinds}, is one of {name}"
    if expected.run.arithmetic == arithmetic:
        run = pb.Run.FromString(actual.run.SerializeToString())
        run.arithmetic = arithmetic  # type: ignore[assignment]
        return replace(actual, run=run), [f"convention recognised: {said}; judged as a run in {name}, as the golden is"]
    theirs = pb.Arithmetic.Name(expected.run.arithmetic).removeprefix("ARITHMETIC_")
    advice = f"run it, and save it, in {theirs}, or judge it by a golden in {name}"
    return actual, [f"{said}: it was run or saved in {name}, and the golden is of {theirs}; {advice}"]


def _is_computed(item: Tensor, expected: Recording) -> bool:
    """Whether a tap's numbers come out of the arithmetic of the run: no input, no table, no copy."""
    tap_place = place(item.info.name, expected.case.config.num_hidden_layers)
    return tap_place is not None and tap_place.op not in _GIVEN and tap_place.op in OPS and not OPS[tap_place.op].copies


def _are_all(items: list[Tensor], arithmetic: int) -> bool:
    nonzero = 0
    for item in items:
        values = item.values()
        if not np.array_equal(_rounded(values, arithmetic), values, equal_nan=True):
            return False
        nonzero += int(np.count_nonzero(values))
    return nonzero >= _ENOUGH


def _rounded(values: Array, arithmetic: int) -> Array:
    with np.errstate(all="ignore"):
        if arithmetic == pb.ARITHMETIC_F16:
            return values.astype(np.float16).astype(values.dtype)
        return to_float32(to_bfloat16(values.astype(np.float32))).astype(values.dtype)
