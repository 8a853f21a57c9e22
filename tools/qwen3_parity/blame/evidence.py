"""A tap and what it should have been: errors in rounding units, cell by cell and as four figures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array, pb
from qwen3_parity.judge.budgets import ROUNDOFF, headroom
from qwen3_parity.judge.op_verdict import NONE, Errors
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_SMALLEST_NORMAL: dict[int, float] = {pb.F16: 2.0**-14, pb.BF16: 2.0**-126}
"""Below it neighbouring numbers are as far apart as at it."""


@dataclass(frozen=True)
class Evidence:
    """What a candidate recorded at a tap, and the site that it is judged by.

    `actual` has the tap's values, `judged` is bool of the same shape, True = counts. `dtype` is the recorded type,
    `narrow` whether that is narrower than the golden's.
    `others` are taps of the same group: places between this one and the nearest taps before it.
    """

    site: Site
    actual: Array
    judged: Array
    dtype: int
    others: tuple[str, ...] = ()
    narrow: bool = False

    def errors(self, result: Result) -> Array | None:
        """|actual - result| in rounding units at every cell, 0 where nothing is judged; None for another shape.

        An exact op has 0 and infinity; a NaN or infinity where the result has none is infinitely wrong.
        """
        truth, unit = result
        if truth.shape != self.actual.shape:
            return None
        if unit is None:
            return np.asarray(np.where(self.judged & (self.actual != truth), np.inf, 0.0))
        unit = as_stored(unit, truth, self.site.place.op, self.dtype)
        with np.errstate(all="ignore"):
            errors = np.asarray(np.abs(self.actual - truth) / unit)  # a scalar's is no array
        same = (self.actual == truth) | (np.isnan(self.actual) & np.isnan(truth))
        errors[same | ~self.judged] = 0
        errors[np.isnan(errors)] = np.inf
        return np.asarray(errors)

    def share(self, result: Result) -> float:
        """The share of the op's headroom that the actual values use of it; infinite for another shape."""
        errors = self.errors(result)
        return math.inf if errors is None else worst_share(self.measure(errors), self.ops)

    def measure(self, errors: Array) -> Errors:
        """The four figures of errors of every cell, over the judged ones."""
        if not self.judged.any():
            return NONE
        squares = errors * errors
        axes = self.site.place.axes
        return Errors(
            rms=_worst_rms(squares, self.judged, ()),
            max=float(errors.max()),
            row=_worst_rms(squares, self.judged, [i for i, a in enumerate(axes) if a in ("batch", "query", "key")][:2]),
            head=_worst_rms(squares, self.judged, [i for i, a in enumerate(axes) if a in ("heads", "kv_heads")]),
        )

    @property
    def ops(self) -> frozenset[str]:
        """The ops of the tap and of the places that are judged with it."""
        places = [self.site.values.place(name) for name in self.others]
        return frozenset([self.site.place.op, *(place.op for place in places if place is not None)])


def _worst_rms(squares: Array, judged: Array, axes: list[int] | tuple[()]) -> float:
    """The largest root mean square over groups along these `axes`; over everything without any."""
    if not judged.any():
        return 0.0
    across = tuple(axis for axis in range(squares.ndim) if axis not in axes)
    counts = np.maximum(judged.sum(axis=across), 1)
    return math.sqrt(float(np.max(squares.sum(axis=across) / counts)))


def worst_share(errors: Errors, ops: frozenset[str]) -> float:
    """The largest share of the headrooms of these ops (the most generous one of a group); NaN counts as infinite."""
    headrooms = [headroom("op", op) for op in ops]
    shares = [
        getattr(errors, measure) / max(getattr(allowed, measure) for allowed in headrooms) for measure in Errors._fields
    ]
    return math.inf if any(math.isnan(share) for share in shares) else max(shares)


def as_stored(unit: Array, truth: Array, op: str, dtype: int) -> Array:
    """The unit of a result in half precision: float32 arithmetic, one rounding more when it is stored.

    RoPE rounds its two products before it adds them, and they may cancel: its whole unit is that of the narrow type.
    """
    if dtype not in (pb.BF16, pb.F16):
        return unit
    if op in OPS and OPS[op].added_products:
        return unit * (ROUNDOFF[dtype] / ROUNDOFF[pb.F32])
    return unit + ROUNDOFF[dtype] * np.maximum(np.abs(truth), _SMALLEST_NORMAL[dtype])
