"""A gradient, or a loss, whose terms are multiplied by factors that they should not have: which, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.terms import Terms
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_TIMES, _SPARE = 3, 2
"""How many numbers there must be for each factor that is fitted; beyond the factors, where they are whole."""
_NEAR = 1e-3
"""Factors this near are the same."""
_LISTED = 4


def summed(tap: WrongTap) -> Finding | None:
    """The factors of a sum's terms: known ones, one for each group of terms, one for each term."""
    terms = tap.terms()
    if terms is None or not tap.wrong.any():
        return None
    if not np.isfinite(tap.actual[tap.judged]).all() or not np.isfinite(terms.parts).all():
        return None
    count = len(terms.parts)
    of_truth = np.ones(count) if terms.of_truth is None else terms.of_truth
    name = "structure.gradient_tokens" if terms.groups.keys() & {"position"} else "structure.gradient_parts"
    for says, factors in terms.factors.items():
        if _fits(tap, terms, factors):
            return Finding(name, says, 1.0)
    for says, group in _groupings(terms):
        _, first, index = np.unique(group, return_index=True, return_inverse=True)
        solved, each = _solved(tap, terms, index, len(first)), np.ones(len(first))
        if solved is not None and not _alike(solved, each):
            return Finding(name, _says(f"its parts by {says}", group[first].tolist(), solved, each), 1.0)
    solved = _solved(tap, terms, np.arange(count), count)
    if solved is None or _alike(solved, of_truth):
        return None
    return Finding(name, _says(f"its {count} parts", terms.names, solved, of_truth), 1.0)


def _groupings(terms: Terms) -> Iterator[tuple[str, Array]]:
    """Terms that belong together, `[term]` as words: by one of their groups, by two, those of fewer groups first."""
    groups = {says: group for says, group in terms.groups.items() if len(set(group.tolist())) > 1}
    pairs = {
        f"{first} × {second}": np.array([", ".join(both) for both in zip(groups[first], groups[second], strict=True)])
        for first, second in combinations(groups, 2)
    }
    for several in (groups, pairs):
        yield from sorted(several.items(), key=lambda group: len(set(group[1].tolist())))


def _fits(tap: WrongTap, terms: Terms, factors: Array) -> bool:
    guess = np.tensordot(factors, terms.parts, 1)
    return bool(tap.judged.any() and tap.reproduced(guess)[tap.judged].all())


def _solved(tap: WrongTap, terms: Terms, index: Array, count: int) -> Array | None:
    """A factor for each of so many groups of terms, where that gives every number and many more than groups are."""
    parts = np.zeros((count, *terms.parts.shape[1:]))
    np.add.at(parts, index, terms.parts)
    columns = parts[:, tap.judged].T
    cells = columns.any(1)
    few = int(cells.sum()) < _TIMES * count
    if int(cells.sum()) < count + _SPARE or tap.unit is None:
        return None
    unit = np.maximum(tap.unit[tap.judged], 1e-300)[:, None]
    columns, actual = columns / unit, tap.actual[tap.judged] / unit[:, 0]
    factors, _, rank, _ = np.linalg.lstsq(columns, actual, rcond=1e-9)
    if few and np.abs(factors - np.rint(factors)).max() > _NEAR:
        return None  # so few numbers tell which are left out or counted twice, and no factors
    return factors if rank == count and _fits(tap, terms, factors[index]) else None


def _alike(factors: Array, of_truth: Array) -> bool:
    """One factor for all is said elsewhere."""
    by = float(np.vdot(factors, of_truth) / np.vdot(of_truth, of_truth))
    return bool(np.abs(factors - by * of_truth).max() <= _NEAR * max(float(np.abs(factors).max()), 1.0))


def _says(parts_of: str, names: Sequence[str], factors: Array, of_truth: Array) -> str:
    """Which terms have another factor than they should, those of one factor together."""
    groups = dict[float, list[str]]()
    for name, factor, should_be in zip(names, factors.tolist(), of_truth.tolist(), strict=True):
        if abs(factor - should_be) > _NEAR:
            near = round(factor)
            groups.setdefault(near if abs(near - factor) <= _NEAR else float(f"{factor:.4g}"), []).append(name)
    parts = []
    for factor, terms in sorted(groups.items(), key=lambda group: -len(group[1]))[:_LISTED]:
        shown = ", ".join(terms[:_LISTED]) + " …" * (len(terms) > _LISTED)
        parts.append(f"left out: {shown}" if factor == 0 else f"multiplied by {factor:g}: {shown}")
    return f"of {parts_of}, " + "; ".join(parts) + " …" * (len(groups) > _LISTED)
