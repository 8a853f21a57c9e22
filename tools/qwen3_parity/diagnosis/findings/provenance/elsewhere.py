"""Where the numbers of a wrong tap stand instead: another row, slot, head, step, layer, tap, the request before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.provenance.caches import UNWRITTEN, in_cache
from qwen3_parity.diagnosis.findings.provenance.form import Form, counted, form_of
from qwen3_parity.diagnosis.findings.provenance.maps import MOVED, Held, Wording, mapped, moved
from qwen3_parity.diagnosis.findings.provenance.matches import Vectors, matches
from qwen3_parity.diagnosis.findings.provenance.sources import Source, is_cache, looked_at, sources
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_NEAR = 1e-3
"""How far a number may be from the golden of another request, of the size of its vector: a candidate drifts from it."""
_FAR = 0.01
"""How far it may be at most, of that size, whatever is allowed for what it should be."""
_COPIED = 1e-6
"""A limit of less than this part of the usual one is a copy's, which may hold what is computed for another place."""
_SAME = 1e-4
"""How near numbers of the golden are that are the same, of the largest of their vector."""
_LEAST = 0.5
"""The share of the wrong numbers that must stand elsewhere."""
_FEWEST = 3
"""Equal numbers that are no accident."""
_PLACES = 1 << 15
"""Wrong places beyond which none is looked up."""
_ZEROS, _INFINITE, _CONSTANT = -1, -2, -3
_NAMELESS = {
    _ZEROS: ("zeros", "zeros"),
    _INFINITE: ("not_finite", "NaN or infinities"),
    _CONSTANT: ("constant", "one number everywhere"),
}
_WITHOUT_SOURCE = 0.95
"""What zeros, infinities and one number everywhere tell: what the numbers are, and not whence."""


@dataclass(frozen=True)
class _Grain:
    """The wrong places as vectors `[place, number]`; places stand at `at` (batch row, position, head).

    `heads` and `numbers` are the wrong indices of those axes; `joined`: a vector has all wrong heads of a position.
    """

    form: Form
    heads: Array
    numbers: Array
    joined: bool
    at: Array
    wrong: Array

    def of(self, values: Array, form: Form) -> Array | None:
        """A tap's values as `[batch, position, head, number]` of this grain; None where they do not fit."""
        formed, (_, _, heads, size) = form.with_heads_of(values, self.form), self.form.shape
        if formed.shape[3] != size or (self.joined and formed.shape[2] != heads):
            return None
        formed = formed[..., self.numbers]
        if not self.joined:
            return formed
        return formed[:, :, self.heads].reshape(*formed.shape[:2], 1, -1)


def stands_elsewhere(tap: WrongTap) -> Finding | None:
    """Which places of a wrong tap hold what stands elsewhere, told as a map; of a cache also what stands nowhere.

    Whole positions are looked up before single heads, and of both the wrong numbers alone. A map weighs 1 when every
    wrong number stands where it says.
    """
    if tap.actual.dtype.kind != "f" or not tap.wrong.any():
        return None
    every = sources(tap)
    best: Finding | None = None
    for grain in _grains(tap):
        finding = _finding(tap, grain, every) if len(grain.at) <= _PLACES else None
        if finding is not None and (best is None or finding.weight > best.weight):
            best = finding
        if best is not None and best.weight >= 1:
            return best
    return best


def _grains(tap: WrongTap) -> Iterator[_Grain]:
    form = form_of(tap.axes, tap.truth.shape)
    wrong = form.of(tap.wrong)
    heads, numbers = np.flatnonzero(wrong.any(axis=(0, 1, 3))), np.flatnonzero(wrong.any(axis=(0, 1, 2)))
    at = np.argwhere(wrong.any(axis=(2, 3)))
    zero = np.zeros((len(at), 1), at.dtype)
    yield _Grain(form, heads, numbers, True, np.concatenate([at, zero], axis=1), wrong)
    if form.shape[2] > 1:
        yield _Grain(form, heads, numbers, False, np.argwhere(wrong.any(axis=3)), wrong)


def _finding(tap: WrongTap, grain: _Grain, every: Sequence[Source]) -> Finding | None:
    where = tuple(grain.at.T)
    values, truth = (_at(grain, part, where) for part in (tap.actual, tap.truth))
    judged = _at(grain, tap.judged, where)
    limits = _at(grain, tap.limits, where)
    bounded = tap.limits[tap.judged & np.isfinite(tap.limits)]
    usual_limit = float(np.sqrt(np.mean(np.square(bounded)))) if bounded.size else 0.0
    size, usual = (np.sqrt(np.mean(np.square(part), axis=1, where=judged)) for part in (values, truth))
    limits = np.where(limits > _COPIED * usual_limit, limits, usual_limit)
    limits = limits * np.maximum(1, size / np.where(usual > 0, usual, np.inf))[:, None]
    limits = np.minimum(limits, _FAR * size[:, None])  # to next to nothing everything small is near
    spread = float(np.std(tap.truth[tap.judged]))
    vectors = Vectors(values, judged, limits, spread if spread > 0 else 1.0)
    rows, source, of = _rows(grain, every, values.shape[1])
    pairs = matches(vectors, rows)
    drifts = np.array([origin.drifts for origin in every])[source]
    if drifts.any():
        near = replace(vectors, limits=np.maximum(limits, _NEAR * size[:, None]))
        pairs = pairs[~drifts[pairs[:, 1]]]
        pairs = np.concatenate([pairs, matches(near, np.where(drifts[:, None], rows, np.nan))])
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    no_wrong = (np.abs(rows[pairs[:, 1]] - truth[pairs[:, 0]]) <= limits[pairs[:, 0]]) | ~judged[pairs[:, 0]]
    nameless = _nameless(values, judged)
    pairs = pairs[(nameless == 0)[pairs[:, 0]] & ~no_wrong.all(axis=1)]  # what is right as well tells nothing
    pairs = pairs[~_by_right(tap, grain, every, pairs, where)]
    unmoved = np.array([not origin.kind for origin in every])[source[pairs[:, 1]]]
    pairs = pairs[~unmoved | (grain.at[pairs[:, 0]] != of[pairs[:, 1]]).any(axis=1)]  # the golden's, where it belongs
    maps = mapped(pairs, grain.at, source, of)
    if not (tap.wide or grain.joined):
        maps = [held for each in maps if len((held := _moved_together(each, grain.at)).places)]
    for content in (_ZEROS, _INFINITE, _CONSTANT):
        numbers = np.flatnonzero(nameless == content)
        maps += [Held(content, numbers, grain.at[numbers], grain.at[numbers])] if len(numbers) else []
    return _weighed(tap, grain, every, maps)


def _moved_together(held: Held, at: Array) -> Held:
    """The places that moved as most wrong heads of their position did, or most wrong positions of their head.

    In half precision a head by itself is near to some other's by chance. `at` are all wrong places.
    """
    moves = np.concatenate([held.at, held.of - held.at], 1)
    together = np.zeros(len(moves), bool)
    for axes in ([0, 1], [2]):
        alike = _counts(moves[:, [*axes, 3, 4, 5]], moves[:, [*axes, 3, 4, 5]])
        together |= (alike > 1) & (2 * alike > _counts(held.at[:, axes], at[:, axes]))
    return held.part(together)


def _counts(rows: Array, among: Array) -> Array:
    """How often each row is among others."""
    which = np.unique(np.concatenate([rows, among]), axis=0, return_inverse=True)[1].ravel()
    return np.asarray(np.bincount(which[len(rows) :], minlength=int(which.max(initial=0)) + 1)[which[: len(rows)]])


def _by_right(tap: WrongTap, grain: _Grain, every: Sequence[Source], pairs: Array, where: tuple[Array, ...]) -> Array:
    """Bool for each pair, True = in the golden, too, both places hold the same: one token that comes again, say."""
    golden = tap.golden(*tap.key)
    if golden is None or golden.shape != tap.truth.shape or not len(pairs):
        return np.zeros(len(pairs), bool)
    here = _at(grain, golden, where)
    there, *_ = _rows(grain, [replace(source, values=_golden(source)) for source in every], here.shape[1])
    off = np.abs(there[pairs[:, 1]] - here[pairs[:, 0]])
    return np.asarray((off <= _SAME * np.abs(here).max(axis=1)[pairs[:, 0], None]).all(axis=1))


def _golden(source: Source) -> Array:
    return np.full(source.values.shape, np.nan) if source.golden is None else source.golden


def _nameless(values: Array, judged: Array) -> Array:
    """`[place]` int: which places hold what needs no source; 0 where something else stands."""
    constant = np.where(judged, values, -np.inf).max(axis=1) == np.where(judged, values, np.inf).min(axis=1)
    kinds = np.where(constant & (judged.sum(axis=1) >= _FEWEST), _CONSTANT, 0)
    kinds[(judged & (values != 0)).sum(axis=1) == 0] = _ZEROS
    kinds[(judged & ~np.isfinite(values)).any(axis=1)] = _INFINITE
    return kinds


def _at(grain: _Grain, values: Array, where: tuple[Array, ...]) -> Array:
    formed = grain.of(values, grain.form)
    assert formed is not None
    return np.asarray(formed[where])


def _rows(grain: _Grain, every: Sequence[Source], size: int) -> tuple[Array, Array, Array]:
    """`[row, number]`, the source of each row, and its place there."""
    rows, source, of = [np.zeros((0, size))], [np.zeros(0, np.int64)], [np.zeros((0, 3), np.int64)]
    for number, origin in enumerate(every):
        formed = grain.of(origin.values, origin.form)
        if formed is not None:
            rows.append(formed.reshape(-1, size))
            of.append(np.argwhere(np.ones(formed.shape[:3], bool)))
            source.append(np.full(len(rows[-1]), number))
    return np.concatenate(rows), np.concatenate(source), np.concatenate(of)


def _weighed(tap: WrongTap, grain: _Grain, every: Sequence[Source], maps: Sequence[Held]) -> Finding | None:
    """The map in words, with the weight of what it explains."""
    numbers = grain.wrong.sum(axis=(2, 3) if grain.joined else 3)
    numbers = numbers[tuple(grain.at[:, : numbers.ndim].T)]
    places = np.concatenate([np.zeros(0, np.int64), *(held.places for held in maps)])
    nowhere = np.setdiff1d(np.arange(len(grain.at)), places)
    share = 1 - float(numbers[nowhere].sum() / numbers.sum())
    kinds = [_kind(held, every) for held in maps]
    # A slot that nobody wrote lacks its channels, all of them: fewer were lost before they came to the cache.
    lost_before = kinds and set(kinds) <= UNWRITTEN and 2 * len(grain.numbers) <= grain.form.shape[3]
    if is_cache(tap) and not lost_before:
        return in_cache(tap, grain.at, nowhere, kinds, lambda: _text(tap, grain, every, maps, nowhere))
    if share < _LEAST:
        return None
    largest = max(range(len(maps)), key=lambda k: (maps[k].source >= 0, int(numbers[maps[k].places].sum()), -k))
    says = _text(tap, grain, every, maps, nowhere)
    whole = 1.0 if maps[0].source >= 0 else _WITHOUT_SOURCE
    return Finding(f"from.{kinds[largest]}", says, whole if share == 1 else share * 0.9)


def _kind(held: Held, every: Sequence[Source]) -> str:
    if held.source < 0:
        return _NAMELESS[held.source][0]
    return every[held.source].kind or MOVED[moved(held)[0]]


def _text(tap: WrongTap, grain: _Grain, every: Sequence[Source], maps: Sequence[Held], nowhere: Array) -> str:
    counts = grain.form.counts(tap.judged)
    words, within = grain.form.words, list[str]()
    if grain.joined and len(grain.heads) < counts[2]:
        within.append(counted(words[2], grain.heads.tolist()))
    if len(grain.numbers) < counts[3]:
        within.append(counted(words[3], grain.numbers.tolist()))
    if grain.joined:
        counts[2] = 1
    how, at = Wording(words[:3], counts[:3], within), grain.at
    says = [_NAMELESS[held.source][1] if held.source < 0 else every[held.source].says for held in maps]
    texts = [how.text(held, source) for held, source in zip(maps, says, strict=True)]
    if len(nowhere):
        fitting = [source for source in every if grain.of(source.values, source.form) is not None]
        says_rest = f"something that stands nowhere {looked_at(tap, fitting)}"
        texts.append(how.text(Held(-1, nowhere, at[nowhere], at[nowhere]), says_rest))
    return "; ".join(texts)
