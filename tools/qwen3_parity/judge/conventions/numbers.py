"""How a recording lays out its numbers: byte order, memory order, axes, truth values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pattern_of, pb
from qwen3_parity.judge.conventions.names import listed, problem
from qwen3_parity.judge.match import is_parameter
from qwen3_parity.judge.verdict import Problem

Reading = Callable[[Array, tuple[int, ...]], Array]
"""`reading(array, shape)`: the elements as they would stand in an array of `shape`, had they been written otherwise."""

_NEAR, _NEARER = 0.3, 0.1
"""How near the golden a reading comes, relative to the golden's RMS, and to the distance of what was written."""
_LOOKED_AT = 1 << 16
"""Elements that are compared to recognise a reading."""


def byte_and_memory_order(actual: Recording, expected: Recording) -> tuple[Recording, list[Problem]]:
    """A file whose numbers are big-endian, or whose arrays stand column by column (Fortran's order)."""
    pairs = [(item, expected[item.key]) for item in actual if item.key in expected]
    problems = []
    for mistake, meant, mend, reading in _WHOLE_FILE:
        readable = {pattern_of(a.info.name): (a, b) for a, b in pairs if _changed_by(reading, a)}
        recognised = {name for name, (a, b) in readable.items() if _recognised(a, b, reading)}
        if len(recognised) < 2 or 2 * len(recognised) < len(readable):
            continue
        rule = f"{mistake}, in {len(recognised)} of {len(readable)} kinds of taps that show it"
        problems.append(problem(actual, rule, meant, mistake, mend))
        actual = replace(actual, tensors=[_read_as(item, expected, reading) for item in actual])
        pairs = [(item, expected[item.key]) for item in actual if item.key in expected]
    return actual, problems


def _read_as(item: Tensor, expected: Recording, reading: Reading) -> Tensor:
    golden_tap = expected.get(*item.key)
    if golden_tap is not None and np.array_equal(item.array, golden_tap.array):
        return item  # copied from the golden, or written by other means than the rest
    return Tensor(item.info, reading(item.array, item.array.shape))


def _swapped(array: Array, _shape: tuple[int, ...]) -> Array:
    return array.byteswap()


def _by_columns(array: Array, shape: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(array.ravel().reshape(shape, order="F"))


_WHOLE_FILE: Sequence[tuple[str, str, str, Reading]] = (
    (
        "numbers are big-endian",
        "little-endian bytes, whatever the machine",
        "set the byte order where the payloads are written: ByteOrder.LITTLE_ENDIAN, to_le_bytes, astype('<f4')",
        _swapped,
    ),
    (
        "arrays are written column by column (Fortran's order)",
        "the last axis contiguous (row-major, C's order)",
        "write each array in C's order: permute it, or copy it with order='C'",
        _by_columns,
    ),
)


def _changed_by(reading: Reading, item: Tensor) -> bool:
    return item.array.size > 1 and not np.array_equal(reading(item.array, item.array.shape), item.array)


def _recognised(actual: Tensor, expected: Tensor, reading: Reading) -> bool:
    """Whether a tap that is far from the golden as it stands is near it by this reading."""
    if actual.array.shape != expected.array.shape or actual.info.dtype != expected.info.dtype:
        return False
    written = _distance(actual, expected)
    if written <= _NEAR:
        return False
    read = _distance(Tensor(actual.info, reading(actual.array, actual.array.shape)), expected)
    return read <= min(_NEAR, _NEARER * written)


def _distance(actual: Tensor, expected: Tensor) -> float:
    """RMS of the difference over the RMS of the golden; infinite where numbers are not finite."""
    stride = max(1, actual.array.size // _LOOKED_AT)
    with np.errstate(all="ignore"):
        a, b = (tap.values().ravel()[::stride].astype(np.float64) for tap in (actual, expected))
        size = float(np.sqrt(np.mean(b * b)))
        relative = float(np.sqrt(np.mean((a - b) ** 2))) / size if size else float(np.abs(a).max(initial=0))
    return relative if np.isfinite(relative) else np.inf


def kinds_of_numbers(actual: Recording, expected: Recording) -> tuple[Recording, list[Problem]]:
    """Masks as bytes or integers of 0 and 1."""
    tensors, patterns = list[Tensor](), dict[str, str]()
    for item in actual:
        golden_tap = expected.get(*item.key)
        numbers = golden_tap is not None and golden_tap.info.dtype == pb.BOOL != item.info.dtype
        if numbers and np.isin(item.values(), (0, 1)).all():
            patterns[pattern_of(item.info.name)] = pb.DType.Name(item.info.dtype)
            item = _rewritten(item, item.values().astype(bool), pb.BOOL)
        tensors.append(item)
    if not patterns:
        return actual, []
    kinds = ", ".join(sorted(set(patterns.values())))
    finding = problem(
        actual,
        f"{listed(sorted(patterns))}: truth values written as numbers",
        "dtype BOOL, one byte 0 or 1, True = visible",
        kinds,
        "set the tensor's dtype to BOOL; the bytes of a U8 of 0 and 1 may stay",
    )
    return replace(actual, tensors=tensors), [finding]


def layouts(actual: Recording, expected: Recording) -> tuple[Recording, list[Problem]]:
    """Axes in another order, and heads that are not split: a tap with the golden's numbers in another shape."""
    readings: dict[str, tuple[str, Reading] | None] = {}
    tensors, examples = list[Tensor](), dict[str, tuple[Tensor, Tensor, str]]()
    for item in actual:
        golden_tap = expected.get(*item.key)
        if (
            golden_tap is not None
            and item.array.shape != golden_tap.array.shape
            and item.array.size == golden_tap.array.size > 0
        ):
            pattern = pattern_of(item.info.name)
            if pattern not in readings:
                readings[pattern] = _layout(item, golden_tap)
            if (layout := readings[pattern]) is not None:
                read = layout[1](item.array, golden_tap.array.shape)
                if read.shape == golden_tap.array.shape:
                    examples.setdefault(pattern, (item, golden_tap, layout[0]))
                    item = _rewritten(item, read, item.info.dtype)
        tensors.append(item)
    if not examples:
        return actual, []
    return replace(actual, tensors=tensors), [_laid_out(pattern, *example) for pattern, example in examples.items()]


def _laid_out(pattern: str, item: Tensor, golden_tap: Tensor, mend: str) -> Problem:
    return Problem(
        pattern,
        "the golden's numbers in another layout",
        f"[{', '.join(golden_tap.info.axes)}], shape {golden_tap.array.shape}",
        f"shape {item.array.shape}",
        mend,
    )


def _layout(item: Tensor, golden_tap: Tensor) -> tuple[str, Reading] | None:
    """How to mend a tap of another shape, and the reading that comes near the golden's numbers; None: none does."""
    candidates = [
        (_distance(Tensor(item.info, read), golden_tap), mend, how) for mend, how, read in _layouts(item, golden_tap)
    ]
    distance, mend, reading = min(candidates, key=lambda candidate: candidate[0])
    return (mend, reading) if distance <= _NEAR else None


def _layouts(item: Tensor, golden_tap: Tensor) -> Iterator[tuple[str, Reading, Array]]:
    shape = golden_tap.array.shape
    yield f"reshape it to {shape}", np.reshape, item.array.reshape(shape)
    if item.array.ndim != len(shape):
        return
    for order in permutations(range(len(shape))):
        if tuple(item.array.shape[axis] for axis in order) == shape and order != tuple(range(len(shape))):

            def read(array: Array, _shape: tuple[int, ...], order: tuple[int, ...] = order) -> Array:
                return np.ascontiguousarray(array.transpose(order))

            yield f"transpose it by {list(order)} before it is written", read, read(item.array, shape)


def _rewritten(item: Tensor, array: Array, dtype: pb.DType) -> Tensor:
    info = pb.Tensor()
    info.CopyFrom(item.info)
    del info.shape[:], info.axes[:]
    info.shape.extend(array.shape)
    info.dtype = dtype
    return Tensor(info, array)


def judged_kinds(actual: Recording, expected: Recording) -> Recording:
    """The candidate's taps that the golden has, with numbers of the golden's kind: the others cannot be judged.

    Beside them stay the numbers of its parameters.
    """

    def fits(item: Tensor, golden: Mapping[tuple[str, int], Tensor]) -> bool:
        golden_tap = golden.get(item.key)
        return (
            golden_tap is not None
            and golden_tap.is_float == item.is_float
            and (golden_tap.is_float or _same_kind(item, golden_tap))
        )

    golden = {item.key: item for item in expected}
    judged = {item.key: item for item in actual if is_parameter(item) or fits(item, golden)}
    return replace(actual, tensors=list(judged.values()))


def _same_kind(item: Tensor, golden_tap: Tensor) -> bool:
    return (item.info.dtype == pb.BOOL) == (golden_tap.info.dtype == pb.BOOL)
