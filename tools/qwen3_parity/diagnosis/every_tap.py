"""What explains some wrong taps of a place, run on all the others: what it leaves is another mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.judged import Judged, fit
from qwen3_parity.diagnosis.suspects import Suspect
from qwen3_parity.mistakes.rounding import as_tf32, in_either

WORK = 1 << 27
"""Counted work, in evaluated elements, of computing the further taps of a place once: a third of a second."""


class Way(NamedTuple):
    """An explanation, the suspect that it is, and the taps that it leaves."""

    said: Explanation
    suspect: Suspect
    left: Sequence[Judged]


def affordable(work: int, taps: int) -> int:
    """How many further taps may be computed, where so many took so much counted work."""
    return WORK * taps // max(1, work)


def on_every_tap(ways: Sequence[Way], further: Sequence[Judged]) -> list[Way]:
    """The ways with what they make of further wrong taps, best first, and of those the ones that are as good."""
    ways = sorted((_further(way, further) for way in ways), key=lambda way: way.said.order)
    return [way for way in ways if way.said.as_good_as(ways[0].said)]


def _further(way: Way, further: Sequence[Judged]) -> Way:
    fits = [(tap, fit(way.suspect, tap)) for tap in further]
    good = [(tap, fitted) for tap, fitted in fits if fitted.share <= 1]
    said = replace(
        way.said,
        share=max([way.said.share, *(fitted.share for _, fitted in good)]),
        whole=way.said.whole + sum(fitted.whole for _, fitted in good),
        partly=way.said.partly + sum(not fitted.whole for _, fitted in good),
        of=way.said.of + len(fits),
        spoiled=max([way.said.spoiled, *(fitted.spoiled for _, fitted in good)]),
        taps=(*way.said.taps, *(tap.key for tap, _ in good)),
    )
    return way._replace(said=said, left=[*way.left, *(tap for tap, fitted in fits if not fitted.share <= 1)])


def once(best: Sequence[Way]) -> list[Way]:
    """The first of each name among those that explain as much as the best and contradict no more.

    The bits of float16 are TF32's: where no number leaves its range, what fits is said of both. Where one mistake
    explains as much by itself, none is made beside it.
    """
    first: dict[str, Way] = {}
    equal = [way for way in best if way.said.as_good_as(best[0].said)]
    alone = {way.said.name for way in equal}
    equal = [way for way in equal if way.said.name.split("+")[1:] == [] or alone.isdisjoint(way.said.name.split("+"))]
    said = {way.said.says for way in equal}
    for way in equal:
        if (in_tf32 := as_tf32(way.said.says)) != way.said.says and in_tf32 in said:
            way = way._replace(said=replace(way.said, says=in_either(way.said.says)))
        first.setdefault(way.said.name, way)
    return list(first.values())
