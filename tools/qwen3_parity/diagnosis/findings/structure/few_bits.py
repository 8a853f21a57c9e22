"""Ways to hold numbers in few bits: integers with a scale, a minimum, a zero point; NF4; float8."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as every
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.rounding import EIGHT_BITS, LARGEST, bfloat16, float16

Stored = Callable[[Array], Array]
"""A scale as it is stored."""
_Hold = Callable[[Array, Stored], "Held"]
_Whole = Callable[[Array], Array]

_F32 = np.float32
SCALES: tuple[tuple[str, Stored], ...] = (
    ("", lambda scale: np.asarray(scale, _F32)),
    (", scales in float16", float16),
    (", scales in bfloat16", bfloat16),
)
"""The types of scales."""
_NF4 = np.array(
    [
        *(-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0.0),
        *(0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0),
    ],
    _F32,
)
"""The quantiles of a normal distribution that bitsandbytes has."""
_E2M1 = np.array([*(-6.0, -4.0, -3.0, -2.0, -1.5, -1.0, -0.5), *(0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)], _F32)
"""The numbers of a float of four bits, as MXFP4 has them."""


class Held(NamedTuple):
    """Blocks of numbers as they are stored: `(codes - zero) * scale + low`, the last three one for each block."""

    codes: Array
    scale: Array
    zero: Array
    low: Array

    @property
    def numbers(self) -> Array:
        """What is read back, `[block, number]`, float32."""
        return np.asarray((self.codes - self.zero) * self.scale + self.low)


class Grid(NamedTuple):
    """A way to hold blocks of float32 numbers, `[block, number]`, each by itself, with scales as they are stored.

    `bits` of integers, 0 where codes are no integers.
    """

    says: str
    hold: _Hold
    bits: int = 0

    def fit(self, parts: Array, stored: Stored) -> Array:
        """The blocks rounded."""
        return self.hold(parts, stored).numbers


def _divided(parts: Array, scale: Array) -> Array:
    return np.asarray(parts / np.where(scale != 0, scale, 1), _F32)


def _peaks(parts: Array) -> Array:
    return np.asarray(np.abs(parts).max(1, keepdims=True))


def _held(codes: Array, scale: Array, zero: Array | None = None, low: Array | None = None) -> Held:
    none = np.zeros_like(scale)
    return Held(np.asarray(codes), scale, none if zero is None else zero, none if low is None else low)


def _symmetric(levels: int, highest: int, whole: _Whole = np.rint) -> _Hold:
    def hold(parts: Array, stored: Stored) -> Held:
        scale = stored(_peaks(parts) / _F32(levels))
        return _held(np.clip(whole(_divided(parts, scale)), -levels, highest), scale)

    return hold


def _from_largest(bits: int) -> _Hold:
    """The number of the largest size is the lowest integer, whatever its sign."""
    half = 1 << (bits - 1)

    def hold(parts: Array, stored: Stored) -> Held:
        at = np.abs(parts).argmax(1)[:, None]
        exact = np.take_along_axis(parts, at, 1) / _F32(-half)
        whole = np.floor(_divided(parts, exact) + _F32(half + 0.5))
        scale = stored(exact)
        return _held(np.minimum(whole, 2 * half - 1), scale, np.full_like(scale, half))

    return hold


def _between(bits: int, whole: _Whole = np.rint) -> _Hold:
    def hold(parts: Array, stored: Stored) -> Held:
        low, high = parts.min(1, keepdims=True), parts.max(1, keepdims=True)
        exact = (high - low) / _F32((1 << bits) - 1)
        return _held(whole(_divided(parts - low, exact)), stored(exact), low=stored(low))

    return hold


def _zero_point(bits: int, whole: _Whole = np.rint) -> _Hold:
    most = (1 << bits) - 1

    def hold(parts: Array, stored: Stored) -> Held:
        low, high = np.minimum(parts.min(1, keepdims=True), 0), np.maximum(parts.max(1, keepdims=True), 0)
        scale = stored((high - low) / _F32(most))
        zero = np.rint(_divided(-low, scale))
        return _held(np.clip(whole(_divided(parts, scale)) + zero, 0, most), scale, zero)

    return hold


def _nearest(table: Array, parts: Array, scale: Array) -> Held:
    return _held(table[np.searchsorted((table[1:] + table[:-1]) / 2, _divided(parts, scale))], scale)


def _quantiles(parts: Array, stored: Stored) -> Held:
    return _nearest(_NF4, parts, stored(_peaks(parts)))


def _microscaled(parts: Array, stored: Stored) -> Held:
    """The scale is the power of two that puts the largest size between 4 and 8."""
    peaks = _peaks(parts)
    return _nearest(_E2M1, parts, np.where(peaks > 0, np.exp2(np.frexp(peaks)[1] - _F32(3)), 1).astype(_F32))


def _float8(rounded: Stored, largest: float) -> _Hold:
    def hold(parts: Array, stored: Stored) -> Held:
        scale = stored(_peaks(parts) / _F32(largest))
        return _held(rounded(_divided(parts, scale)), scale)

    return hold


def _integers(bits: int) -> list[Grid]:
    top = (1 << (bits - 1)) - 1
    grids = [
        Grid(f"{bits} bits without a minimum (the largest size is {top})", _symmetric(top, top), bits),
        Grid(f"{bits} bits without a minimum (the largest size is {top + 1})", _symmetric(top + 1, top), bits),
        Grid(f"{bits} bits with a minimum (as q{bits}_1)", _between(bits), bits),
        Grid(f"{bits} bits with a zero point", _zero_point(bits), bits),
    ]
    signed = f"{bits} bits without a minimum (as q{bits}_0: the largest size is {-top - 1})"
    return [*grids, Grid(signed, _from_largest(bits), bits)] if bits < 8 else grids


GRIDS: tuple[Grid, ...] = (
    *(grid for bits in (8, 4, 5, 6, 3, 2) for grid in _integers(bits)),
    Grid("NF4", _quantiles),
    Grid("MXFP4 (e2m1, its scales powers of two)", _microscaled),
    *(Grid(name, _float8(rounded, largest)) for (name, rounded), largest in zip(EIGHT_BITS, LARGEST, strict=True)),
)
"""Every way, the usual ones first."""
CUT_OFF: tuple[Grid, ...] = tuple(
    Grid(f"{bits} bits {how}, whose fractions are {says}", hold, bits)
    for bits, (says, whole) in every((8, 4), (("cut off", np.trunc), ("rounded down", np.floor)))
    for how, hold in (
        ("without a minimum", _symmetric((1 << (bits - 1)) - 1, (1 << (bits - 1)) - 1, whole)),
        ("with a minimum", _between(bits, whole)),
        ("with a zero point", _zero_point(bits, whole)),
    )
)
"""Integers that are not the nearest ones."""
