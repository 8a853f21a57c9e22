"""Which place holds what, as a map in words: "batch rows 1–2 hold what belongs in batch row 0"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.provenance.form import PLACE, counted

_MOVES = 16
"""Different moves within one source."""
_BASE = np.array([1 << 42, 1 << 21, 1])
"""Makes one number of a move."""
_PARTS = 4
"""Parts of a map in words."""


@dataclass(frozen=True)
class Held:
    """Places by number, where they are (`[place, axis]`), and where in one source that stands which they hold."""

    source: int
    places: Array
    at: Array
    of: Array

    def part(self, which: Array) -> Held:
        """A part of it."""
        return Held(self.source, self.places[which], self.at[which], self.of[which])


def mapped(pairs: Array, at: Array, source: Array, of: Array) -> list[Held]:
    """The fewest sources that hold every place that has one, and within a source the fewest moves.

    `pairs` are numbers of places and rows; a place stands at `at`, a row at `of` in its `source`.
    """
    maps, moves = list[Held](), of[pairs[:, 1]] - at[pairs[:, 0]]
    while len(pairs):
        counts = Counter((np.unique(source[pairs[:, 1]] * len(at) + pairs[:, 0]) // len(at)).tolist())
        best = min(counts, key=lambda number: (-counts[number], number))
        of_best = source[pairs[:, 1]] == best
        chosen = _fewest_moves(pairs[of_best], moves[of_best])
        maps.append(Held(best, chosen[:, 0], at[chosen[:, 0]], of[chosen[:, 1]]))
        left = ~np.isin(pairs[:, 0], chosen[:, 0])
        pairs, moves = pairs[left], moves[left]
    return maps


def _fewest_moves(pairs: Array, moves: Array) -> Array:
    """One pair of each place."""
    chosen = list[Array]()
    while len(pairs):
        _, first, which, counts = np.unique(moves @ _BASE, return_index=True, return_inverse=True, return_counts=True)
        far = np.abs(moves[first]).sum(axis=1)
        best = np.lexsort((far, -counts))[0]
        best_pairs = pairs if len(chosen) >= _MOVES else pairs[which == best]
        best_pairs = best_pairs[np.unique(best_pairs[:, 0], return_index=True)[1]]
        chosen.append(best_pairs)
        left = ~np.isin(pairs[:, 0], best_pairs[:, 0])
        pairs, moves = pairs[left], moves[left]
    every = np.concatenate(chosen)
    return np.asarray(every[np.argsort(every[:, 0], kind="stable")])


MOVED = ("other_row", "other_slot", "other_head")
"""What a finding is called whose numbers stand elsewhere in the same tap, by the first axis along which they moved."""


def moved(held: Held) -> list[int]:
    """The axes along which something stands elsewhere."""
    return [axis for axis in range(held.at.shape[1]) if (held.at[:, axis] != held.of[:, axis]).any()]


@dataclass(frozen=True)
class Wording:
    """A map in words: the `words` of its axes, how many indices of each count, and the region that everything is in."""

    words: Sequence[tuple[str, str]]
    counts: Sequence[int]
    within: Sequence[str] = ()
    verb: tuple[str, str] = ("hold", "holds")

    def text(self, held: Held, says: str) -> str:
        """A map in words; `says` names the source, with `PLACE` for the place in it."""
        parts = [held]
        if _by_axis(held) is None:
            rows = _parts(held, held.at[:, 0])
            parts = [part for row in rows for part in ([row] if _by_axis(row) is not None else _runs(row))]
        texts = [self._phrase(_by_axis(part) or [], says) for part in parts[:_PARTS]]
        return "; ".join(texts) + (" …" if len(parts) > _PARTS else "")

    def _phrase(self, maps: Sequence[Mapping[int, int]], says: str) -> str:
        where, targets, several = list(self.within), list[str](), False
        for word, count, by_index in zip(self.words, self.counts, maps, strict=False):
            elsewhere_here = any(at != of for at, of in by_index.items())
            if len(by_index) < count or (elsewhere_here and count > 1):
                where.append(counted(word, by_index))
                several |= len(by_index) > 1
            if elsewhere_here:
                targets.append(counted(word, by_index.values()))
        verb = self.verb[not (several or self.within) or not where]
        region = ", ".join(where) or "all of it"
        place = " of ".join(reversed(targets)) or "the same place"
        return f"{region} {verb} {says.replace(PLACE, place)}"


def _parts(held: Held, by: Array) -> list[Held]:
    return [held.part(by == number) for number in dict.fromkeys(by.tolist())]


def _runs(held: Held) -> list[Held]:
    """Neighbouring places whose content stands at neighbouring places, or at the same place."""
    at, of = np.diff(held.at, axis=0), np.diff(held.of, axis=0)
    turns = (np.diff(held.of - held.at, axis=0) != 0).any(axis=1) & (of != 0).any(axis=1) | (at < 0).any(axis=1)
    return _parts(held, np.cumsum(np.concatenate([[0], turns])))


def _by_axis(held: Held) -> list[dict[int, int]] | None:
    """Where what stands at an index of each axis belongs; None where that depends on another axis."""
    maps = list[dict[int, int]]()
    for axis in range(held.at.shape[1]):
        pairs = dict.fromkeys(zip(held.at[:, axis].tolist(), held.of[:, axis].tolist(), strict=True))
        by_index = dict(pairs.keys())
        if len(by_index) != len(pairs):
            return None
        maps.append(dict(sorted(by_index.items())))
    return maps
