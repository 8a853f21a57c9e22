"""A weight whose own numbers show the integers that it was kept in, and how these differ from the right ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import numbers
from qwen3_parity.diagnosis.findings.product import Product
from qwen3_parity.diagnosis.findings.structure.few_bits import SCALES
from qwen3_parity.judge.indices import ranges
from qwen3_parity.mistakes.rounding import bfloat16

_MOST_BITS = 8
_LARGE, _ROWS = 1 << 16, 64
"""Of a weight with more numbers so many rows are read."""
_DECODED = 0.95
"""The part of the blocks whose numbers must be whole steps apart: one of few different numbers may be anything's."""
_FEWEST = 4
"""Different numbers of a block that show a step."""
_PARTS = 3
"""How many steps the nearest two numbers of a block may be apart."""
_WHOLE = 0.02
"""How far from whole steps numbers may be: scales are multiplied in float32, and their zero points rounded."""
_HALF, _MOST_OF_THEM, _ENDS = 0.55, 0.75, 1.05
"""How many steps the nearest integer may be away, some of which is the scale's rounding, for so many of the numbers;
and how many the ends of a block, which a rounded zero point cuts off.
"""
_HIDES, _NEARLY_ALL = 2.0**-8, 0.99
"""What being rounded to bfloat16 twice hides of a number, and the part that must be as near as few bits are."""
_SAME = 2.0**-20
"""How far off a scale may be that is read off its products."""
_SHOWN = 4
_SIZES, _SCREENED = (256, 128, 64, 32, 16, 8), 32
"""Numbers of a row that often share a scale, beside what cuts it into equal parts; blocks that a quick look takes."""
_OFF_SCALE = 0.1
"""How far from 1 a scale may be that is the right one in a narrower type."""

IN_BLOCKS = "structure.blocks"
"""What a weight in few bits is called."""
Form = tuple[str, str, float]


class _Blocks(NamedTuple):
    """Numbers `[block, number]` as loaded and as they should be, the step of each block, and the bits of its integers.

    What fills a row's last block is NaN.
    """

    size: int
    loaded: Array
    truth: Array
    step: Array
    bits: int


def as_far_as(product: Product) -> Form | None:
    """Few bits that a narrower type hides: no number is farther from the checkpoint's than they would make it."""
    if product.held is None or not np.array_equal(bfloat16(product.held), product.held):
        return None
    held, truth = product.held, product.weight
    error = np.maximum(np.abs(held - truth) - _HIDES * np.abs(held), 0)
    for says, step in _coarser(truth):
        if (error <= _HALF * step).mean() >= _NEARLY_ALL and (error <= _ENDS * step).all():
            far = f"its weight is no farther from the checkpoint's than {says}, and the rounding to bfloat16, make it"
            return IN_BLOCKS, far, 1.0
    return None


def _coarser(truth: Array) -> Iterator[tuple[str, Array]]:
    """Few bits in words, and the step of each number in them, the finest first."""
    largest = np.abs(truth).max(1, keepdims=True)
    yield "8 bits with a scale for each row", largest / 127
    yield "float8 (e4m3)", np.maximum(2.0**-3 * np.abs(truth), largest.max() / 448 * 2.0**-9)
    for size in (truth.shape[1], *_SIZES):
        if truth.shape[1] % size == 0:
            blocks = truth.reshape(len(truth), -1, size)
            span = np.maximum(np.ptp(blocks, -1) / 15, np.abs(blocks).max(-1) / 7)
            each = "each row" if size == truth.shape[1] else f"each {size} numbers of a row"
            yield f"4 bits with a scale for {each}", np.repeat(span, size, axis=-1)


def decoded(product: Product) -> Form | None:
    """Integers that can be read off the weight as it was loaded: right but for rounding, or shifted, or scaled."""
    if product.held is None:
        return None
    rows = slice(None) if product.held.size <= _LARGE else slice(_ROWS)
    blocks = next(_in_blocks(product.held[rows], product.weight[rows]), None)
    if blocks is None:
        return None
    each = "each row" if blocks.size == product.held.shape[1] else f"each {blocks.size} numbers of a row"
    stored = f"its weight is in integers of {blocks.bits} bits, a scale for {each}{_type_of(blocks.step)}"
    for form in (_rounded, _by_sign, _shifted, _scaled):
        if (difference := form(blocks)) is not None:
            name, says = difference
            return name, f"{stored}{says and f', and {says}'}", 1.0
    return None


def _in_blocks(held: Array, truth: Array) -> Iterator[_Blocks]:
    """The weight in the largest blocks whose numbers are whole steps apart."""
    inputs = held.shape[1]
    parts = (size for size in range(inputs // 2, 3, -1) if inputs % size == 0)
    for size in sorted({inputs, *(size for size in _SIZES if size < inputs), *parts}, reverse=True):
        cut = [_cut(values, size) for values in (held, truth)]
        if np.isfinite(_steps(cut[0][:_SCREENED])[0]).mean() < _DECODED:
            continue
        step, bits = _steps(cut[0])
        good = np.isfinite(step)
        if good.mean() >= _DECODED and bits <= _MOST_BITS:
            yield _Blocks(size, cut[0][good], cut[1][good], step[good, None], bits)


def _cut(values: Array, size: int) -> Array:
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % size)), constant_values=np.nan)
    return padded.reshape(-1, size)


def _steps(blocks: Array) -> tuple[Array, int]:
    """The step of each block, NaN where it shows none, and the bits that its integers take."""
    steps, levels = np.full(len(blocks), np.nan), 1.0
    for number, block in enumerate(blocks):
        values = np.unique(block[np.isfinite(block)])
        above = values - values[:1]
        gaps = np.diff(above)
        gaps = gaps[gaps > 2.0**-12 * above[-1]] if len(above) else gaps
        if len(gaps) + 1 < _FEWEST:
            continue
        for parts in range(1, _PARTS + 1):  # what lies nearest may be several steps apart
            step = float(gaps.min()) / parts
            for _ in range(2):  # the smallest difference is the least exact
                counts = np.rint(above / step)
                step = float((counts * above).sum() / np.square(counts).sum())
            if np.abs(above / step - counts).max() <= _WHOLE and counts[-1] < 1 << _MOST_BITS:
                steps[number], levels = step, max(levels, counts[-1] + 1)
                break
    return steps, int(np.ceil(np.log2(levels)))


def _type_of(scales: Array) -> str:
    """In which narrow type scales are, in words; "" where they are in none."""
    for words, narrow in reversed(SCALES[1:]):
        if (np.abs(narrow(scales.astype(np.float32)) - scales) <= _SAME * scales).all():
            return words
    return ""


def _off(blocks: _Blocks) -> Array:
    """How many steps each number is from the right one."""
    return np.asarray((blocks.loaded - blocks.truth) / blocks.step)


def _near(off: Array) -> bool:
    steps = np.abs(off[np.isfinite(off)])
    return bool((steps <= _HALF).mean() >= _MOST_OF_THEM and (steps <= _ENDS).mean() >= _DECODED)


def _rounded(blocks: _Blocks) -> tuple[str, str] | None:
    return (IN_BLOCKS, "") if _near(_off(blocks)) else None


def _by_sign(blocks: _Blocks) -> tuple[str, str] | None:
    """Numbers of either sign are so many steps off: codes read with another sign, or excess."""
    off, codes = _off(blocks), np.rint(blocks.truth / blocks.step)
    below = codes < 0
    shifts = [float(np.rint(np.nanmedian(off[cells]))) for cells in (below, codes >= 0) if cells.any()]
    if len(shifts) < 2 or shifts[0] == shifts[1] or not _near(off - np.where(below, *shifts)):
        return None
    negative, positive = (f"{shift:+.0f}" for shift in shifts)
    says = (
        f"its codes are off by {negative} steps where they are negative and by {positive} where they are not: "
        "they are stored in one way of signs and read in another (two's complement, an excess)"
    )
    return "structure.misread", says


def _shifted(blocks: _Blocks) -> tuple[str, str] | None:
    """Each block is so many whole steps off: its zero point is another's, or wrong."""
    off = _off(blocks)
    shifts = np.rint(np.nanmedian(off, axis=1))
    if not shifts.any() or not _near(off - shifts[:, None]):
        return None
    wrong = np.flatnonzero(shifts)
    by = np.unique(shifts[wrong])
    how = f"by {by[0]:+.0f} steps" if len(by) == 1 else f"by {by[0]:+.0f} to {by[-1]:+.0f} steps"
    listed = f"{ranges(wrong[:_SHOWN].tolist())}{' …' * (len(wrong) > _SHOWN)}"
    says = f"the zero points of {len(wrong)} of its {len(shifts)} blocks ({listed}) are off {how}"
    return "structure.block_shifted", f"{says}: a number is added to each block"


def _scaled(blocks: _Blocks) -> tuple[str, str] | None:
    """Each block is multiplied by a number: its scale is another's, or rounded."""
    loaded, truth = (np.nan_to_num(values) for values in (blocks.loaded, blocks.truth))
    scale = (loaded * truth).sum(1) / np.maximum(np.square(truth).sum(1), 1e-300)
    if not (scale != 0).all() or not _near((loaded / scale[:, None] - truth) / (blocks.step / scale[:, None])):
        return None
    by = numbers(scale, _SHOWN)
    if (np.abs(scale - 1) <= _OFF_SCALE).all():
        return "structure.block_scaled", f"its scales are rounded: they are {by} of what they should be"
    return "structure.block_scaled", f"each block is multiplied by a number of its own, another's scale: {by}"
