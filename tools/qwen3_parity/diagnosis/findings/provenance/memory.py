"""The right numbers at other places in memory: an offset or a stride that is off, a part that is laid out otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.judge.indices import ranges

_MOST = 1 << 18
"""Numbers of a tap beyond which none is looked up."""
_FEWEST, _DIFFERENT = 16, 8
"""Wrong numbers that show where they come from, and different ones among them."""
_NEAR = 2.0**-21
"""How near a number must be to what it should be elsewhere, of its size: a copy, or one that another kernel made."""
_STANDS, _TOLD = 0.5, 0.95
"""The part of wrong numbers that must stand elsewhere, as by chance none does; that moves or a layout must tell."""
_MOVES = 4
_ELSEWHERE = 0.9
"""What is told by numbers that stand at other places in no order that is known."""
_LEAST, _MORE = 0.45, 0.25
"""What is told where others stand nowhere, and how much more by all of them: a map of rows or channels says more."""


def in_memory(tap: WrongTap) -> Finding | None:
    """Wrong numbers that are right ones of the same tap, single ones, where no rows or channels are others'."""
    usable = floats(tap)
    if usable is None or tap.truth.size > _MOST:
        return None
    actual, truth, wrong = usable
    cells = wrong & (actual != 0)
    if cells.sum() < _FEWEST or len(np.unique(actual[cells])) < _DIFFERENT:
        return None
    at, source = _sources(actual, np.where(tap.judged & np.isfinite(truth), truth, np.nan), np.flatnonzero(cells))
    if len(at) < max(_FEWEST, _STANDS * cells.sum()):
        return None
    for says, share in _layouts(tap, actual, truth, wrong):
        return Finding("fit.memory", says, 1.0 if share == 1 else _ELSEWHERE)
    says = f"{len(at)} of its {int(wrong.sum())} wrong numbers are right ones that belong elsewhere in memory"
    moves, counts = np.unique(source - at, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOVES]
    if counts[order].sum() >= _TOLD * len(at):
        how = ", ".join(f"{counts[i]} of them {_far(int(moves[i]), tap)}" for i in order)
        return Finding("fit.memory", f"{says}: {how}; an offset, a pitch or a stride is off", _weight(at, wrong, 1.0))
    first, its = (list(map(int, np.unravel_index(place[0], truth.shape))) for place in (at, source))
    says += f": what belongs at {its} stands at {first}; written in one layout and read in another?"
    return Finding("fit.memory", says, _weight(at, wrong, _ELSEWHERE))


def _weight(at: Array, wrong: Array, whole: float) -> float:
    share = len(at) / wrong.sum()
    return whole if share == 1 else float(_LEAST + _MORE * share)


def _far(by: int, tap: WrongTap) -> str:
    """How far away numbers belong, in numbers, and as a whole count of an axis where it is one."""
    says, step = f"{abs(by)} numbers {'later' if by > 0 else 'earlier'}", 1
    whole = ""
    for name, length in reversed(list(zip(tap.axes, tap.truth.shape, strict=False))):
        if by % step == 0 and abs(by) // step < length:
            whole = f" ({by // step:+d} along {name})"
        step *= length
    return says + whole


def _sources(actual: Array, truth: Array, at: Array) -> tuple[Array, Array]:
    """Which of the places `at` hold a number that belongs at a single other place, and that place."""
    flat = truth.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[np.isfinite(flat[order])]
    values, asked = flat[order], actual.ravel()[at]
    reach = _NEAR * np.abs(asked)
    first, last = np.searchsorted(values, asked - reach), np.searchsorted(values, asked + reach, "right")
    single = last - first == 1
    source = order[first[single]]
    elsewhere = source != at[single]
    return at[single][elsewhere], source[elsewhere]


def _layouts(tap: WrongTap, actual: Array, truth: Array, wrong: Array) -> Iterator[tuple[str, float]]:
    """A part of the tap, its wrong indices of one axis, in another order of axes in memory."""
    names = tap.axes
    for axis, name in enumerate(names[: truth.ndim]):
        across = tuple(each for each in range(truth.ndim) if each != axis)
        indices = np.flatnonzero(wrong.any(axis=across))
        if not 1 < len(indices) == indices[-1] - indices[0] + 1:
            continue
        box = tuple(slice(indices[0], indices[-1] + 1) if each == axis else slice(None) for each in range(truth.ndim))
        part, mine, inside = truth[box], actual[box], wrong[box]
        for order in list(permutations(range(truth.ndim)))[1:]:
            guess = np.ascontiguousarray(part.transpose(order)).reshape(part.shape)
            share = float((np.abs(guess - mine) <= _NEAR * np.abs(mine))[inside].mean())
            if share >= _TOLD:
                order_of = ", ".join(names[each] for each in order)
                says = f"{name} {ranges(indices.tolist())} of it: [{order_of}] in memory, read as [{', '.join(names)}]"
                yield f"{says}: written in one layout and read in another", share
