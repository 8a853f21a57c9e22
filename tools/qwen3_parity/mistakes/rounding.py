"""Numbers as narrower types hold them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_golden import Array


def _mantissa(bits: int) -> Callable[[Array], Array]:
    """Rounding of float32 to `bits` explicit bits of mantissa, ties to even."""
    drop = 23 - bits

    def rounded(values: Array) -> Array:
        raw = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
        raw += (1 << (drop - 1)) - 1 + (raw >> np.uint64(drop) & np.uint64(1))
        high_bits = (raw & np.uint64(0xFFFFFFFF & ~((1 << drop) - 1))).astype(np.uint32)
        narrow = high_bits.view(np.float32)
        return np.asarray(np.where(np.isfinite(values), narrow, values), dtype=np.float32)

    return rounded


def _half(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


bfloat16: Callable[[Array], Array] = _mantissa(7)
"""The nearest bfloat16."""
float16: Callable[[Array], Array] = _half
"""The nearest float16; what is too large is infinite."""
tf32: Callable[[Array], Array] = _mantissa(10)
"""The nearest TF32 (10 bits of mantissa, float32's range)."""

ROUNDED: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("bfloat16", bfloat16),
    ("float16", float16),
    ("TF32", tf32),
)
"""The narrower types by name."""


def _cut(bits: int) -> Callable[[Array], Array]:
    """float32 with `bits` explicit bits of mantissa, the others dropped."""
    mask = np.uint32(0xFFFFFFFF & ~((1 << (23 - bits)) - 1))

    def cut(values: Array) -> Array:
        return (np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) & mask).view(np.float32)

    return cut


NARROW = (*ROUNDED, ("bfloat16 (bits cut off)", _cut(7)), ("TF32 (bits cut off)", _cut(10)))
"""These, and two whose numbers are not the nearest."""
_HALF, _TENSOR = "float16", "TF32"
BOTH = f"{_HALF} or {_TENSOR} (no number here is beyond what both can hold)"
"""What numbers of 10 bits are in that do not leave float16's range."""


def as_tf32(says: str) -> str:
    """What is said of a mistake in float16, of the same one in TF32."""
    return says.replace(_HALF, _TENSOR)


def in_either(says: str) -> str:
    """What is said of a mistake in float16 that TF32 would make as well."""
    return says.replace(_HALF, BOTH)


def _eight_bits(bits: int, smallest: int, largest: float) -> Callable[[Array], Array]:
    """Rounding to `bits` bits of mantissa; below `2.0 ** smallest` in equal steps, nothing beyond `largest`."""

    def rounded(values: Array) -> Array:
        x = np.clip(np.asarray(values, np.float64), -largest, largest)
        step = np.exp2(np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 2.0**-100))), smallest) - bits)
        return np.asarray(np.clip(np.rint(x / step) * step, -largest, largest), np.float32)

    return rounded


_OF_EACH_ROW = "a scale for each row"


def _scaled(
    rounded: Callable[[Array], Array], largest: float, axes: tuple[int, ...] | None
) -> Callable[[Array], Array]:
    """Rounding with a scale that makes the largest number `largest`, by itself along `axes`."""

    def held(values: Array) -> Array:
        x = np.asarray(values, np.float64)
        scale = np.abs(x).max(axes, keepdims=True, initial=0) / largest
        return np.asarray(rounded(x / np.where(scale > 0, scale, 1)) * scale)

    return held


INTEGERS: tuple[tuple[str, Callable[[Array], Array]], ...] = tuple(
    (f"int{bits} with {words}", _scaled(np.rint, 2 ** (bits - 1) - 1, axes))
    for bits in (8, 4)
    for words, axes in (("one scale", None), (_OF_EACH_ROW, (-1,)), ("a scale for each channel", (-2,)))
)
"""Integers with scales by name, for arrays of two axes or more."""
LARGEST = 448.0, 57344.0
"""The largest numbers of the types of 8 bits."""
EIGHT_BITS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("float8 (e4m3)", _eight_bits(3, -6, LARGEST[0])),
    ("float8 (e5m2)", _eight_bits(2, -14, LARGEST[1])),
)
"""The types of 8 bits by name."""
OF_ROWS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    *((name, rounded) for name, rounded in INTEGERS if name.endswith(_OF_EACH_ROW)),
    *(
        (f"{name} with {_OF_EACH_ROW}", _scaled(rounded, largest, (-1,)))
        for (name, rounded), largest in zip(EIGHT_BITS, LARGEST, strict=True)
    ),
)
"""Integers and floats with a scale of each row, as caches have it: of each head of each token."""
