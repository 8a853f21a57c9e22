"""Which edits of the reference's graph give a candidate's wrong numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, takewhile
from typing import NamedTuple

from qwen3_parity.diagnosis.edits.edit import Edit, Free, Site, numbers_of
from qwen3_parity.diagnosis.edits.fit import fit
from qwen3_parity.diagnosis.edits.grammar import PLAIN
from qwen3_parity.diagnosis.edits.of_experts import of_experts
from qwen3_parity.diagnosis.edits.pairs import beside, pairs
from qwen3_parity.diagnosis.edits.past_windows import wider
from qwen3_parity.diagnosis.edits.recurring import in_tokens, recurring
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.single import alike, in_later_steps, single
from qwen3_parity.diagnosis.edits.solved import solved
from qwen3_parity.diagnosis.edits.states_read import states_read
from qwen3_parity.diagnosis.edits.target import Nearness, Target
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.mistakes.ranks import Kind, Rank
from qwen3_spec.graph import Line

ENOUGH = 9_000_000_000
"""Counted work, in elements that ops read, after which the search at a place ends."""
_ALONE = 0.5
"""The part of that work for edits by themselves, once one gives whole taps: the rest is for a second one beside it."""
_MOST_TAPS = 60
"""Wrong taps, and right ones, that an edit which fits the first is tried on."""
_BEST = 24
"""Edits that are tried on more than the first tap."""
_ALL, _MUCH = 0.9, 0.3
"""The parts of the right cells that an edit may spoil: of all it explains, and where it also spoils right taps."""
_MANY = "edit.added"
"""Edits of which there are several for every op, and that people make less than others of their rank."""
_KNOWN = 2
"""Mistakes of other places that a second one is looked for beside: the latest."""
_LONG, _NEAR = 400, 0.1
"""Of a region of so many ops, unrolled loops among them, those edits come first that this part of it follows."""


_Said = set[tuple[str, str, Line | None]]
"""Names, words and lines of edits that fit."""


class Fitting(NamedTuple):
    """An edit that gives the first wrong tap, and how many others it does; `changed` counts its ops and leaves.

    `beside`: how many right taps of other places it would spoil.
    """

    edit: Edit
    said: Explanation
    changed: int
    beside: int = 0

    @property
    def order(self) -> tuple[int, int, int, Rank, int]:
        """Smaller is better: explains more, contradicts less, is plainer."""
        said = self.said
        return -said.reproduced, -said.whole, said.contradicted + self.beside, said.rank, self.changed

    @property
    def is_nonsense(self) -> bool:
        """Whether it gives no tap as a whole, and next to all that is right about those it gives would be wrong."""
        said = self.said
        return not said.whole and (said.spoiled >= _ALL or (said.spoiled >= _MUCH and said.contradicted > 0))

    def as_good_as(self, other: Fitting) -> bool:
        """Whether it explains as much as another of its kind, contradicts no more and is as plain."""
        return self.order[:4] == other.order[:4] and self.edit.name == other.edit.name


@dataclass(frozen=True)
class Searched:
    """The edits that fit, best first, the taps `tried`, and the counted `work`. `stopped`: not every edit was tried."""

    fitting: Sequence[Fitting] = ()
    tried: tuple[tuple[str, int], ...] = ()
    work: int = 0
    stopped: bool = False


def search(
    wrong: Sequence[Target],
    passing: Sequence[Target],
    known: Sequence[Edit] = (),
    until: int = ENOUGH,
    late: Callable[[], bool] = lambda: False,
    *,
    new: bool = True,
    beside: Sequence[Target] = (),
) -> Searched:
    """The edits that give the wrong taps of one place, best first; `known` ones, of other places, are tried first.

    `passing` are right taps of this place, those `beside` of others.
    After `until`, in counted work, or where it is `late`, no more are looked for; without `new` ones the known alone.
    """
    wrong = [target for target in wrong if target.cells.any()]
    if not wrong:
        return Searched()
    first = min(wrong, key=lambda target: (len(target.region.order), -int(target.cells.sum())))
    others = [target for target in wrong if target is not first][:_MOST_TAPS]
    layers = {numbers_of(target.region.key[0]) for target in wrong}
    passing = [target for target in passing if numbers_of(target.region.key[0]) in layers][:_MOST_TAPS]
    taps = _Taps((first, *others), passing, _of_layer(first, beside), until, late)
    alone, fitting, said, tried = taps, list[Fitting](), _Said(), set[str]()
    for edits in _stages(first, known, taps.from_step) if new else (known,):
        if any(each.said.whole and not each.is_nonsense for each in fitting):
            alone = replace(taps, until=int(_ALONE * until))
        fitting = _with(fitting, edits, first, alone, said)
        fitting = _in_tokens(fitting, taps, tried)
        if alone.over() or _is_all_explained(fitting):
            break
    if new and not taps.over():
        fitting = sorted((*fitting, *_besides(fitting, taps, said)), key=lambda each: each.order)
    return Searched(fitting, tuple(target.region.key for target in taps.wrong), taps.work, stopped=alone.over())


def _of_layer(first: Target, beside: Sequence[Target]) -> list[Target]:
    """Those of a tap's layer and step."""
    layer, step = numbers_of(first.region.key[0]), first.region.key[1]
    return [x for x in beside if (numbers_of(x.region.key[0]), x.region.key[1]) == (layer, step)]


@dataclass(frozen=True)
class _Taps:
    """The taps that edits are tried on, and until when."""

    wrong: Sequence[Target]
    passing: Sequence[Target]
    beside: Sequence[Target]
    until: int
    late: Callable[[], bool]

    @property
    def work(self) -> int:
        return sum(target.region.work for target in (*self.wrong, *self.passing, *self.beside))

    def over(self) -> bool:
        return self.work > self.until or self.late()

    @property
    def from_step(self) -> int:
        """The first step that is wrong, where one before it is right; else 0."""
        step = min(target.region.key[1] for target in self.wrong)
        return step if any(target.region.key[1] < step for target in self.passing) else 0


def _fitting(
    edits: Iterable[Edit], at: Target, taps: _Taps, said: _Said, before: Sequence[Fitting]
) -> Iterator[Fitting]:
    """The edits that give a wrong tap, tried on all taps, until it is late; at least one of them all."""
    near = list(_near(at, takewhile(lambda _: not taps.over(), edits), said))
    near.sort(key=lambda pair: (not pair[0].whole, pair[1].rank))
    rest = [target for target in taps.wrong if target is not at]
    tried = len(before)
    for nearness, edit in near[:_BEST]:
        if not tried or not taps.over():
            tried += 1
            fitting = _everywhere(edit, at, nearness, rest, taps.passing)
            yield fitting._replace(beside=_spoiled(edit, at, taps.beside))


def _spoiled(edit: Edit, at: Target, beside: Sequence[Target]) -> int:
    """How many right taps an edit would spoil that are computed from what it changes, at a wrong one or outside."""
    by_site = {site: at.region.at(site) for site in edit.changes}
    changed, outside = {*chain(*by_site.values())}, [site for site, values in by_site.items() if not values]
    shared = (
        x
        for x in beside
        if not changed.isdisjoint((*x.region.order, *x.region.leaves)) or any(map(x.region.at, outside))
    )
    return sum(target.spoiled_by(edit) for target in shared)


def _with(fitting: Sequence[Fitting], edits: Iterable[Edit], at: Target, taps: _Taps, said: _Said) -> list[Fitting]:
    """What fits, and what fits of further edits: until it is late, or none that is less plain can come before."""
    every = list(fitting)
    for alike_plain in _by_rank(edits):
        every = sorted((*every, *_fitting(alike_plain, at, taps, said, every)), key=lambda each: each.order)
        if taps.over() or _is_unrivalled(every):
            break
    return every


def _in_tokens(fitting: Sequence[Fitting], taps: _Taps, tried: set[str]) -> list[Fitting]:
    """What fits, and the best of later steps in the tokens of the first one, where it leaves that wrong."""
    best = next((each for each in fitting if not each.is_nonsense), None)
    left = [] if best is None else [x for x in taps.wrong if not x.region.key[1] and x.region.key not in best.said.taps]
    if best is None or not left or best.edit.says in tried or any(not step for _, step in best.said.taps):
        return list(fitting)
    tried.add(best.edit.says)
    at = min(left, key=lambda target: len(target.region.order))
    return _with(fitting, in_tokens(best.edit, at.region), at, taps, set())


def _besides(fitting: Sequence[Fitting], taps: _Taps, said: _Said) -> Iterator[Fitting]:
    """The best edit with a second one beside it that gives a tap which it leaves wrong."""
    best = next((each for each in fitting if not each.is_nonsense), None)
    if best is None or best.edit.parts:
        return
    left = [target for target in taps.wrong if target.region.key not in best.said.taps]
    if left:
        second = min(left, key=lambda target: len(target.region.order))
        yield from _fitting(beside(best.edit, _every(second)), second, taps, said, fitting)


def _every(target: Target) -> list[Edit]:
    """Every edit of a tap's region without a number to fit."""
    return [edit for table in PLAIN for edit in table(target.region) if isinstance(edit, Edit)]


def _is_all_explained(fitting: Sequence[Fitting]) -> bool:
    """Whether the best edit gives every wrong tap, and spoils no right one of another place."""
    best = next((each for each in fitting if not each.is_nonsense), None)
    return best is not None and best.said.reproduced == best.said.of and not best.beside


def _is_unrivalled(fitting: Sequence[Fitting]) -> bool:
    """Whether no edit that is less plain can come before the best: it gives all of every wrong tap, and spoils none."""
    best = fitting[0] if fitting else None
    return best is not None and best.said.whole == best.said.of and not best.said.contradicted + best.beside


def _by_rank(edits: Iterable[Edit]) -> Iterable[Iterable[Edit]]:
    """The edits of a list by their rank, the plainest first; what is made as it is asked for in its own order."""
    if not isinstance(edits, list):
        return (edits,)
    return (list(alike_plain) for _, alike_plain in groupby(sorted(edits, key=_rank), key=_rank))


def _rank(edit: Edit) -> tuple[Rank, bool]:
    return edit.rank, _rounds(edit)


def _rounds(edit: Edit) -> bool:
    """Whether it makes numbers narrow: such edits come last, there is a dozen for every op."""
    return edit.name == "edit.rounded"


def _near(first: Target, edits: Iterable[Edit], said: _Said) -> Iterator[tuple[Nearness, Edit]]:
    """The edits that give the first wrong tap and do not say what was `said` of their line; it grows by theirs."""
    for edit in edits:
        nearness = first.of(edit)
        key = edit.name, edit.says, edit.line and edit.line.line
        if nearness.fits and key not in said and not (edit.parts and first.is_one_of_two(edit)):
            said.add(key)
            yield nearness, edit


def _stages(first: Target, known: Sequence[Edit], step: int) -> Iterator[Iterable[Edit]]:
    """What is tried in turn, until something fits; what makes numbers narrow last, where a tap is far off.

    Those from a `step` on come first, where that is not 0: what stands before it is right.
    """
    yield known
    every, region = [edit for table in PLAIN for edit in table(first.region)], first.region
    every += alike([edit for edit in every if isinstance(edit, Edit)])
    rounded = [edit for edit in every if isinstance(edit, Edit) and _rounds(edit)] if first.is_far_off else []
    if rounded:
        every = [edit for edit in every if isinstance(edit, Free) or not _rounds(edit)]
    if step:
        yield wider(region)
        yield in_later_steps(_plain(every), region, step)
    is_short = len(region.order) < _LONG
    yield from _of_short(first, every, known, step) if is_short else _of_long(first, every, step)
    yield from (rounded, single(rounded, region))
    if is_short:
        yield pairs(first, _plain(every))


def _of_short(
    first: Target, every: Sequence[Edit | Free], known: Sequence[Edit], step: int
) -> Iterator[Iterable[Edit]]:
    region = first.region
    yield [*_plain(every), *solved(first, step), *of_experts(first)]
    yield states_read(first)
    yield _beside_known(first, known, _plain(every))
    of_tokens, in_one_place = recurring(region, step)
    yield _plain(of_tokens)
    yield from _further(every, first, single(every, region))
    yield from _further(of_tokens, first, in_one_place)


def _of_long(first: Target, every: Sequence[Edit | Free], step: int) -> Iterator[Iterable[Edit]]:
    """Of a long region what costs little first, then every edit."""
    region = first.region
    is_near = [_is_near(edit, region) for edit in every]
    near, far = ([edit for edit, x in zip(every, is_near, strict=True) if x == side] for side in (True, False))
    alone = (edit for edit in single(every, region) if _is_near(edit, region))
    of_tokens, in_one_place = recurring(region, step)
    yield [*_plain(near), *of_experts(first)]
    behind = [alone, _plain(of_tokens)]  # cheap where few ops follow what a recurrence gives
    yield from reversed(behind) if of_tokens and _is_near(of_tokens[0], region) else behind
    yield from _further([*near, *(edit for edit in of_tokens if isinstance(edit, Edit))], first, in_one_place)
    yield from _further([edit for edit in of_tokens if isinstance(edit, Free)], first, ())
    yield _plain(far)
    yield from _further(far, first, single(far, region))


def _beside_known(first: Target, known: Sequence[Edit], every: Sequence[Edit]) -> Iterator[Edit]:
    """A mistake of another place that changes this tap, too, and does not give it, with another one beside it."""
    for edit in known[-_KNOWN:]:
        if not edit.parts and first.predicted(edit) is not None:
            yield from beside(edit, every)


def _is_near(edit: Edit | Free, region: Region) -> bool:
    """Whether few ops follow what an edit changes, so that trying it costs little."""
    changes = edit.edit(edit.starts[0]).changes if isinstance(edit, Free) else edit.changes
    behind = region.downstream(value for site in changes for value in region.at(site))
    return len(behind) <= _NEAR * len(region.order)


def _plain(every: Sequence[Edit | Free]) -> list[Edit]:
    """Edits of plain and of rare kinds."""
    return [edit for edit in every if isinstance(edit, Edit) and edit.rank.kind <= Kind.RARE]


def _further(every: Sequence[Edit | Free], first: Target, alone: Iterable[Edit]) -> Iterator[Iterable[Edit]]:
    """Numbers that are fitted, lines at one place `alone`, and the other kinds of edits, those of many last."""

    def turn(edit: Edit) -> tuple[bool, Rank]:
        return edit.name == _MANY, edit.rank

    yield (edit for free in every if isinstance(free, Free) for edit in fit(free, first))
    yield alone
    rarer = sorted((edit for edit in every if isinstance(edit, Edit) and edit.rank.kind > Kind.RARE), key=turn)
    yield from (list(stage) for _, stage in groupby(rarer, key=turn))


def _part(fits: Sequence[Nearness]) -> str:
    """The part of the taps that an edit is made in, where it is not made in all of them."""
    parts = list(dict.fromkeys(each.part for each in fits))
    if not any(parts):
        return ""
    return parts[0] if len(parts) == 1 else "a part of each tap"


def _cost(site: Site) -> int:
    """What is loaded otherwise is changed for all who read it: as two ops."""
    return 1 if site.file else 2


def _everywhere(
    edit: Edit, first: Target, nearness: Nearness, others: Sequence[Target], passing: Sequence[Target]
) -> Fitting:
    every = [nearness, *(target.of(edit) for target in others)]
    fits = [each for each in every if each.fits]
    taps = [target.region.key for target, near in zip([first, *others], every, strict=True) if near.fits]
    contradicting = tuple(target.region.key for target in passing if target.spoiled_by(edit))
    part = _part(fits)
    said = Explanation(
        edit.name,
        f"{edit.says}, in {part} alone" if part else edit.says,
        fix="as the checkpoint and the case have it",
        place="",
        share=max(each.share for each in fits),
        whole=sum(each.whole for each in fits),
        partly=sum(not each.whole for each in fits),
        of=len(every),
        contradicted=len(contradicting),
        passing=len(passing),
        spoiled=max(each.spoiled for each in fits),
        rank=edit.rank,
        taps=tuple(taps),
        contradicting=contradicting,
        part=part,
    )
    return Fitting(edit, said, sum(_cost(site) * len(first.region.at(site)) for site in edit.changes))
