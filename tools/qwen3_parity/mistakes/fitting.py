"""Free numbers of wrong formulas: one engine fits them for every op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.formulas import Formula
from qwen3_parity.mistakes.hypothesis import Hypothesis, OfSite
from qwen3_parity.mistakes.observed import Observed, explains, likely
from qwen3_parity.mistakes.ranks import RARE, Rank
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

_ROWS, _CELLS = 64, 4096
"""Rows with wrong numbers, and cells, that a quick look takes of an op which works row by row."""
_STEPS, _HALVINGS = 12, 20
"""Steps of a fit, and how often one that makes it worse is halved."""
_FAR = 1e-3
"""What a cell may be off beside its size, of the largest."""


def fitted(
    site: Site, observed: Observed | None, name: str | Callable[..., str], fix: str, says: Callable[..., str],
    wrong: Callable[..., Array | None], *starts: Sequence[float], rank: Rank = RARE,
) -> Iterator[Hypothesis]:  # fmt: skip
    """A formula `wrong(*numbers, site)` with the numbers that bring it closest to what was recorded, plain if near."""
    if observed is None:
        return
    part, few = sampled(site, observed)
    for start in starts:
        numbers = _least_squares(lambda *numbers: wrong(*numbers, part), few, np.array(start, np.float64))
        if numbers is None:
            continue
        near = [float(f"{number:.3g}") for number in numbers]
        for chosen in (near, [float(number) for number in numbers]):
            named = name if isinstance(name, str) else name(*chosen)
            guess = Hypothesis(named, says(*chosen), fix, Formula(partial(wrong, *chosen)), rank)
            if explains(part, few, guess.compute(part)):
                yield from likely(site, observed, [guess])
                return


@np.errstate(all="ignore")
def _least_squares(wrong: Callable[..., Array | None], few: Observed, numbers: Array) -> Array | None:
    """Gauss and Newton's steps on the wrong cells, each weighed by its size; None where there is no number."""
    actual = few.actual[few.wrong].astype(np.float64)
    weight = 1 / (np.abs(actual) + _FAR * float(np.abs(actual).max(initial=1e-30)))

    def left(at: Array) -> Array | None:
        y = wrong(*map(float, at))
        error = None if y is None else (y[few.wrong] - actual) * weight
        return error if error is not None and np.isfinite(error).all() else None

    for _ in range(_STEPS):
        error = left(numbers)
        steps = np.maximum(np.abs(numbers), 1e-9) * 1e-6
        slopes = [left(numbers + step * unit) for step, unit in zip(steps, np.eye(len(numbers)), strict=True)]
        if error is None or any(slope is None for slope in slopes):
            return None
        jacobian = np.stack([(slope - error) / step for slope, step in zip(slopes, steps, strict=True)], axis=1)
        if not np.isfinite(jacobian).all():
            return None
        move = np.linalg.lstsq(jacobian, -error, rcond=None)[0]
        for _ in range(_HALVINGS):  # no step that makes it worse
            after = left(numbers + move)
            if after is not None and float(after @ after) <= float(error @ error):
                break
            move = move / 2
        numbers = numbers + move
        if np.all(np.abs(move) <= 1e-12 * np.maximum(np.abs(numbers), 1e-12)):
            break
    return numbers


def shifted(site: Site, names: Sequence[str], slots: Sequence[str], fix: str) -> Iterator[Hypothesis]:
    """An input of the token or channel before or behind; `names` and words by input. Batch rows are wiring's."""
    for slot, (name, words) in enumerate(zip(names, slots, strict=True)):
        for by, where in ((1, "before"), (-1, "behind")):
            for axis, along in ((1, "token"), (2, "channel")):

                def rolled(site: Site, slot: int = slot, by: int = by, axis: int = axis) -> Site:
                    rolled = tuple(np.roll(x, by, axis) if i == slot else x for i, x in enumerate(site.inputs))
                    return replace(site, inputs=rolled)

                yield Hypothesis(name, f"takes {words} of the {along} {where}", fix, OfSite(rolled), RARE)


def sampled(site: Site, observed: Observed) -> tuple[Site, Observed]:
    """A site of a few rows with wrong numbers, as one batch row, of an op that works row by row; others as they are.

    A row of a softmax is a query with its heads.
    """
    shape, masked = observed.actual.shape, site.place.op == "softmax"
    if not masked and not (OPS[site.place.op].by_row and all(x.shape[:2] == shape[:2] for x in site.inputs)):
        return site, observed

    def by_row(x: Array) -> Array:
        """`[row, …]`"""
        x = np.moveaxis(x, 1, 2) if masked and x.ndim == 4 else x
        return x.reshape(-1, *x.shape[2:])

    wrong = np.flatnonzero(by_row(observed.wrong).any(axis=tuple(range(1, len(shape) - 1))))
    most = int(np.clip(_CELLS // max(1, by_row(observed.wrong)[0].size), 4, _ROWS))
    at = wrong[:: max(1, len(wrong) // most)][:most]

    def sample(x: Array) -> Array:
        rows = by_row(x)[at]
        return rows[:, :, None] if masked and x.ndim == 4 else rows[:, None] if masked else rows[None]

    unit = None if observed.unit is None else sample(np.broadcast_to(observed.unit, shape))
    few = Observed(sample(observed.actual), sample(observed.truth), unit, sample(observed.wrong))
    return replace(site, inputs=tuple(map(sample, site.inputs))), few
