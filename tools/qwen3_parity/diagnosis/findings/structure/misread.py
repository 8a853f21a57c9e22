"""A weight in few bits that is read back otherwise than it was stored: its codes, zero points or scales mixed up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product as every

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import MOST, Cast, Product
from qwen3_parity.diagnosis.findings.structure.few_bits import CUT_OFF, GRIDS, SCALES, Grid, Held, Stored

_SIZES = (0, 32, 64, 128, 16, 8, 256, -1)
"""Numbers of a row that share a scale; 0: the row, -1: the whole weight."""
_LARGE, _ROWS = 1 << 18, 16
"""Of a weight with more numbers so many rows are read."""
_SCREENED, _POSITIONS = 4, 32
"""Outputs, and positions, that a quick look takes."""
_LEFT = 0.06
"""What it may leave of the error: types of scales differ by less."""
_TENSORS = 8
"""Tensors of the same shape whose scales are tried."""
_INTEGERS = tuple(grid for grid in GRIDS if grid.bits in (8, 4))
_FLOATS = tuple(grid for grid in GRIDS if not grid.bits)
_F32 = np.float32

_Reading = Callable[[Held], "Held | None"]
"""How blocks `[row, block, number]` are read; None where it is no other way."""


def misread(product: Product) -> tuple[str, str, float] | None:
    """A weight in few bits that is exactly what one mistake of whoever reads it makes."""
    if product.wrong.mean() < MOST:
        return None
    outputs = slice(None) if product.weight.size <= _LARGE else slice(_ROWS)
    part, others = product.part(outputs=outputs), _others(product)
    worst = np.argsort(-np.abs(part.missing).max(0), kind="stable")[:_SCREENED]
    few = part.part(positions=slice(_POSITIONS), outputs=worst)
    for grid, size in every((*_INTEGERS, *_FLOATS, *CUT_OFF), _SIZES):
        if size >= product.weight.shape[1]:
            continue

        def as_stored(
            stored: Stored, before: Cast, grid: Grid = grid, size: int = size
        ) -> tuple[Held, list[tuple[str, _Reading]]]:
            held = _held(before(product.weight), outputs, grid, size, stored)
            return held, [*_readings(grid), *_scales_of(others, outputs, grid, size, stored)]

        for number in _near(few, worst, *as_stored(SCALES[0][1], lambda weight: weight)):
            best, says = 0.0, ""
            for (before, after), (words, stored) in every(product.casts, SCALES):
                held, readings = as_stored(stored, before)
                how, reading = readings[number]
                read = reading(held)
                if read is not None and best < 1 and (share := part.share(weight=after(_weight(read, product)))):
                    scale = {0: "each row", -1: "all of it"}.get(size, f"each {size} numbers of a row")
                    stands = f"its weight is in {grid.says}, a scale for {scale}{words}"
                    best, says = max((best, says), (share, f"{stands}{how and f', and {how}'}"))
            if best:
                return "structure.misread", says, best
    return None


def _others(product: Product) -> list[tuple[str, Array]]:
    """Tensors of the same shape by name, those whose names have most in common first."""
    shape, parts = product.weight.shape, product.name.split(".")

    def distance(name: str) -> int:
        return sum(a != b for a, b in zip(name.split("."), parts, strict=False))

    names = [name for name, tensor in product.tensors.items() if tensor.shape == shape and name != product.name]
    return [(name, product.tensors[name]) for name in sorted(names, key=lambda name: (distance(name), name))[:_TENSORS]]


def _held(weight: Array, outputs: slice, grid: Grid, size: int, stored: Stored) -> Held:
    """Some rows as they are stored: codes `[row, block, number]`, the rest `[row, block, 1]`."""
    parts = weight[outputs].astype(_F32)
    rows, inputs = parts.shape
    if size < 0:
        ends = [np.full((1, inputs), end(weight), _F32) for end in (np.min, np.max)]
        whole = grid.hold(np.concatenate([parts, *ends]).reshape(1, -1), stored)
        codes = whole.codes.reshape(-1, 1, inputs)[:rows]
        return Held(codes, *(np.broadcast_to(each, (rows, 1, 1)) for each in whole[1:]))
    size = size or inputs
    padded = np.pad(parts, ((0, 0), (0, -inputs % size)), mode="edge")  # adds no new smallest or largest
    return Held(*(each.reshape(rows, -1, each.shape[1]) for each in grid.hold(padded.reshape(-1, size), stored)))


def _weight(read: Held, product: Product) -> Array:
    """What is multiplied, `[row, in]`, float64."""
    numbers = read.numbers
    return numbers.reshape(len(numbers), -1)[:, : product.weight.shape[1]].astype(np.float64)


def _near(few: Product, outputs: Array, held: Held, readings: list[tuple[str, _Reading]]) -> Iterator[int]:
    """Which readings come near to what was recorded at the few outputs, in order."""
    error = np.square(few.missing).sum()
    for number, (_, reading) in enumerate(readings):
        read = reading(held)
        if read is None:
            continue
        rows = Held(*(each[outputs] for each in read))
        rest = few.products - few.x @ _weight(rows, few).T
        if np.square(rest).sum() <= _LEFT**2 * error:
            yield number


def _readings(grid: Grid) -> list[tuple[str, _Reading]]:
    """What is said of each way to read codes, zero points and scales, and the way; of codes cut off the right one."""
    if grid in CUT_OFF:
        return [("", lambda held: held)]
    return [*_OF_CODES, *((*_OF_ZEROS, *_signs(grid.bits)) if grid.bits else ()), *_OF_SCALES]


def _ordered(order: tuple[int, ...]) -> _Reading:
    def read(held: Held) -> Held | None:
        rows, blocks, size = held.codes.shape
        if blocks * size % len(order):
            return None
        codes = held.codes.reshape(-1, len(order))[:, order].reshape(rows, blocks, size)
        return held._replace(codes=codes)

    return read


def _halves(*, interleave: bool) -> _Reading:
    """Codes of a block's halves lie in the same bytes: read as neighbours, or neighbours read as halves."""

    def read(held: Held) -> Held | None:
        rows, blocks, size = held.codes.shape
        if size % 2:
            return None
        cut = (2, size // 2) if interleave else (size // 2, 2)
        codes = held.codes.reshape(rows, blocks, *cut).swapaxes(2, 3).reshape(rows, blocks, size)
        return held._replace(codes=codes)

    return read


def _unsigned(held: Held) -> Held | None:
    return held._replace(codes=np.abs(held.codes)) if held.codes.min() < 0 else None


def _exchanged_halves(held: Held) -> Held | None:
    size = held.codes.shape[2]
    return None if size % 2 else held._replace(codes=np.roll(held.codes, size // 2, axis=2))


def _zero(change: Callable[[Array], Array]) -> _Reading:
    return lambda held: held._replace(zero=change(held.zero))


def _of_zero_points(zero: float) -> _Reading:
    return lambda held: held._replace(zero=np.full_like(held.zero, zero)) if held.zero.any() else None


def _minimum(by: float) -> _Reading:
    return lambda held: held._replace(low=by * held.low) if held.low.any() else None


def _signs(bits: int) -> list[tuple[str, _Reading]]:
    half, every_code = 1 << (bits - 1), 1 << bits

    def signed(held: Held) -> Held | None:
        codes = np.where(held.codes >= half, held.codes - every_code, held.codes)
        return held._replace(codes=codes) if held.codes.min() >= 0 else None

    def unsigned(held: Held) -> Held | None:
        codes = np.where(held.codes < 0, held.codes + every_code, held.codes)
        return held._replace(codes=codes) if held.codes.min() < 0 else None

    return [
        ("its codes, which have no sign, are read as signed", signed),
        ("its signed codes are read without a sign", unsigned),
        (f"{half} is subtracted for the zero points", _of_zero_points(half)),
    ]


def _moved(move: Callable[[Array], Array], *, zeros: bool = False) -> _Reading:
    """Scales, and zero points, at other blocks: `move` is of `[row, block, 1]`."""

    def read(held: Held) -> Held | None:
        scale = move(held.scale)
        if np.array_equal(scale, held.scale):
            return None
        zero, low = (move(held.zero), move(held.low)) if zeros else (held.zero, held.low)
        return held._replace(scale=scale, zero=zero, low=low)

    return read


def _across(values: Array) -> Array:
    """`[row, block, 1]` whose memory is read as `[block, row]`."""
    rows, blocks = values.shape[:2]
    return np.ascontiguousarray(values.reshape(blocks, rows, 1).swapaxes(0, 1))


def _along(values: Array, by: int) -> Array:
    return np.roll(values.ravel(), by).reshape(values.shape) if values.shape[1] > 1 else values


def _of_blocks(index: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def move(values: Array) -> Array:
        at = np.arange(values.shape[1])
        return values[:, np.clip(index(at), 0, len(at) - 1)]

    return move


_MOVES: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("are read along the other axis", _across),
    ("are those of the next block", lambda values: _along(values, -1)),
    ("are those of the block before", lambda values: _along(values, 1)),
    ("are those of the next block of their row", lambda values: np.roll(values, -1, axis=1)),
    ("are those of the block before in their row", lambda values: np.roll(values, 1, axis=1)),
    ("are those of the next row", lambda values: np.roll(values, -1, axis=0)),
    ("are those of the row before", lambda values: np.roll(values, 1, axis=0)),
    ("are read for blocks twice as large", _of_blocks(lambda at: at // 2)),
    ("are read for blocks of half the size", _of_blocks(lambda at: 2 * at)),
    ("are those of the first block of their row", _of_blocks(lambda at: 0 * at)),
    ("are those of the row's blocks in reverse", _of_blocks(lambda at: at[::-1])),
    ("are the first one, everywhere", lambda values: np.broadcast_to(values[:1, :1], values.shape)),
    ("are the square root of what they should be", lambda values: np.sqrt(np.abs(values))),
    ("are multiplied twice", np.square),
    ("are twice what they should be", lambda values: 2 * values),
    ("are half of what they should be", lambda values: values / 2),
    ("are left out", np.ones_like),
)
_OF_SCALES: tuple[tuple[str, _Reading], ...] = tuple(
    (f"its scales{' and zero points' * zeros} {says}", _moved(move, zeros=zeros))
    for zeros in (False, True)
    for says, move in _MOVES[: 11 if zeros else None]
)
_OF_CODES: tuple[tuple[str, _Reading], ...] = (
    ("its codes are exchanged in pairs: the halves of a byte in the other order", _ordered((1, 0))),
    ("its codes are read as neighbours, where a byte holds those of both halves of a block", _halves(interleave=True)),
    ("its codes are read as halves of a block, where a byte holds neighbours", _halves(interleave=False)),
    ("its codes are read with the halves of each block exchanged", _exchanged_halves),
    ("its codes are read in order 0 4 1 5 2 6 3 7 of each eight", _ordered((0, 4, 1, 5, 2, 6, 3, 7))),
    ("its codes are read in order 0 2 4 6 1 3 5 7 of each eight", _ordered((0, 2, 4, 6, 1, 3, 5, 7))),
    ("its codes are read in reverse, in each eight", _ordered((7, 6, 5, 4, 3, 2, 1, 0))),
    ("its codes are read in reverse, in each four", _ordered((3, 2, 1, 0))),
    ("its codes are read without their signs", _unsigned),
)
_OF_ZEROS: tuple[tuple[str, _Reading], ...] = (
    ("its zero points are one too large", _zero(lambda zero: zero + 1)),
    ("its zero points are one too small", _zero(lambda zero: zero - 1)),
    ("its zero points are added, not subtracted", _zero(np.negative)),
    ("its zero points are left out", _of_zero_points(0)),
    ("its minimum is left out", _minimum(0)),
    ("its minimum is subtracted", _minimum(-1)),
)


def _scales_of(
    others: list[tuple[str, Array]], outputs: slice, grid: Grid, size: int, stored: Stored
) -> list[tuple[str, _Reading]]:
    """Scales, and zero points, of other tensors."""

    def reading(of: Callable[[], Held], *, zeros: bool) -> _Reading:
        def read(held: Held) -> Held:
            return of()._replace(codes=held.codes) if zeros else held._replace(scale=of().scale)

        return read

    if grid in CUT_OFF:
        return []
    holds = [(name, cache(partial(_held, weight, outputs, grid, size, stored))) for name, weight in others]
    return [
        (f"its scales{' and zero points' * zeros} are those of {name}", reading(of, zeros=zeros))
        for name, of in holds
        for zeros in (False, True)[: 1 + bool(grid.bits)]
    ]
