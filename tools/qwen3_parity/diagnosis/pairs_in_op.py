"""Two mistakes in one op: one changes what the op is given, the other one is made on that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.values import Values
from qwen3_parity.diagnosis.judged import Judged
from qwen3_parity.diagnosis.pairs import name_of
from qwen3_parity.diagnosis.search import Search
from qwen3_parity.diagnosis.suspects import Suspect, library_of
from qwen3_parity.mistakes.hypothesis import Compute, Hypothesis, OfSite
from qwen3_parity.mistakes.ranks import COMBINED, FITTED, Kind
from qwen3_parity.mistakes.wiring import rewired
from qwen3_spec.site import Site

_RIGHT: Compute = OfSite(lambda site: site)
_SAME = 6
"""Digits, of the largest number of the right tap, to which two changes are the same."""
_NEARLY = 1e-3
"""The part of the error that two mistakes may leave before they are judged in rounding units."""
_NEAREST = 12
"""Changes on which mistakes are looked for whose numbers are read off the tap: those that come closest to it alone."""
_RARER = 2
"""What the rarest two known mistakes are rarer than the plainest two."""

Alike = list[Hypothesis]
"""Mistakes that make the same of the first tap, the plainest first: other layers may tell them apart."""
Near = Callable[[Compute, Site], bool]
"""Whether a mistake made on a site leaves a small part of the first tap's error."""


@dataclass(frozen=True)
class _Change:
    """A changed site, whose `parts` are others than right, by name; the mistakes that are it, each with its change."""

    alike: Alike
    compute: OfSite
    site: Site
    parts: Mapping[str, Any]


def pairs_in_op(first: Judged, search: Search) -> tuple[Iterator[Suspect], Iterator[Suspect]]:
    """Two mistakes at a time of a tap whose op was given what was recorded: known ones, then one read off the tap."""
    changes, plain = _known(first, search)
    if not changes:
        return iter(()), iter(())
    near = _nearness(first)
    return _both_known(first, changes, plain, near, search), _read_off(first, changes, near, search)


def _both_known(
    first: Judged, changes: Sequence[_Change], plain: Sequence[Alike], near: Near, search: Search
) -> Iterator[Suspect]:
    others = [*plain, *(change.alike for change in changes if not _hides(change, changes))]
    for number, change in enumerate(changes):
        if search.over():
            return
        separate = (x for x in changes[number + 1 :] if x.parts.keys().isdisjoint(change.parts))
        both = [x.alike for x in separate if near(_RIGHT, _with_parts(change.site, x.parts))]
        both += [x for x in others if near(x[0].compute, change.site)]
        yield from (_pair(first, *pair) for x in both for pair in product(change.alike, x))


def _read_off(first: Judged, changes: Sequence[_Change], near: Near, search: Search) -> Iterator[Suspect]:
    """A mistake whose numbers are read off the tap, made on one of the changed sites that come closest to it."""
    for change in changes[:_NEAREST]:
        changed = None if search.over() else _computed(change.compute.change, first.evidence.site)
        for mistake in () if changed is None else library_of(changed, search.failures):
            if mistake.rank <= FITTED:
                alike = change.alike if near(mistake.compute, change.site) else change.alike[:1]
                yield from (_pair(first, x, mistake) for x in alike)


def _known(first: Judged, search: Search) -> tuple[Sequence[_Change], Sequence[Alike]]:
    """The mistakes that are a changed site, those first that come closest but for a factor, and the plain others."""
    if not first.in_shape or first.large:
        return [], []
    site, values = first.evidence.site, first.evidence.site.values
    assert isinstance(values, Values)
    bare = replace(site, values=replace(values, units=False))  # each takes a part of the time without rounding units
    actual, truth = first.in_units(first.evidence.actual), first.in_units(first.truth[0])
    size = float(np.abs(truth[np.isfinite(truth)]).max(initial=0)) or 1.0
    changes: dict[tuple[frozenset[str], bytes], tuple[float, _Change]] = {}
    effects: dict[bytes, list[Hypothesis]] = {}
    every = (*rewired(site), *(suspect.hypothesis for suspect in first.every_suspect(search.failures)))
    for mistake in sorted({each.says: each for each in every}.values(), key=lambda each: each.rank):
        change = mistake.compute if isinstance(mistake.compute, OfSite) else None
        changed = bare if change is None else _computed(change.change, bare)
        result = None if changed is None else _values(mistake.compute, bare, first)
        first.work.call()
        if changed is None or result is None or np.array_equal(result, truth):
            continue
        same = np.round(result / size, _SAME).tobytes()
        if change is None:
            if mistake.rank.kind <= Kind.RARE and not mistake.leaves:  # not one that other ops would show, too
                effects.setdefault(same, []).append(mistake)
            continue
        parts = _other_parts(changed, bare)
        key = frozenset(parts), same
        if key not in changes:
            alike = _called(effects.get(same, []), change)
            changes[key] = _left_but_for_a_factor(result, actual), _Change(alike, change, changed, parts)
        changes[key][1].alike.append(mistake)
    return [change for _, change in sorted(changes.values(), key=lambda pair: pair[0])], list(effects.values())


def _values(compute: Compute, site: Site, first: Judged) -> Array | None:
    """What is computed, in the tap's rounding units; None where it is of another shape."""
    result = _computed(compute, site)
    if result is None or result[0].shape != first.truth[0].shape:
        return None
    with np.errstate(all="ignore"):
        return first.in_units(result[0])


def _left_but_for_a_factor(values: Array, actual: Array) -> float:
    """How far the best multiple of these values is from the tap's."""
    with np.errstate(all="ignore"):
        left = float(np.linalg.norm(values * (np.vdot(values, actual) / np.vdot(values, values)) - actual))
    return left if np.isfinite(left) else np.inf


def _called(mistakes: Sequence[Hypothesis], change: OfSite) -> Alike:
    """A change by the names that the op's own library has for it: they come first, where they are as plain."""
    named = {mistake.name: _by_name(mistake, change) for mistake in reversed(mistakes)}
    return sorted(named.values(), key=lambda mistake: mistake.rank)


def _by_name(mistake: Hypothesis, change: OfSite) -> Hypothesis:
    """A change by the name of a mistake, where it makes the same."""

    def changed(site: Site) -> Site | None:
        result, expected = change(site), mistake.compute(site)
        if result is None or expected is None or result[0].shape != expected[0].shape:
            return None
        return change.change(site) if np.allclose(result[0], expected[0], 1e-6, 1e-9, equal_nan=True) else None

    return replace(mistake, compute=OfSite(changed))


def _parts(site: Site) -> dict[str, Any]:
    """What mistakes change of a site, by name."""
    slots = {f"slot {number}": value for number, value in enumerate(site.inputs)}
    return {**slots, **site.parameters, "config": site.config, "before": site.before}


def _other_parts(changed: Site, site: Site) -> dict[str, Any]:
    return {name: part for name, part in _parts(changed).items() if part is not _parts(site).get(name)}


def _with_parts(site: Site, parts: Mapping[str, Any]) -> Site:
    """A site with other parts."""
    every = {**_parts(site), **parts}
    return replace(
        site,
        inputs=tuple(every.pop(f"slot {number}") for number in range(len(site.inputs))),
        config=every.pop("config"),
        before=every.pop("before"),
        parameters=every,
    )


def _hides(change: _Change, changes: Sequence[_Change]) -> bool:
    """Whether nothing is left of a change that this one is made on: a slot reads another tap, whatever it read."""
    for hidden in changes:
        if hidden is not change and hidden.parts.keys() == change.parts.keys():
            again = _computed(change.compute.change, hidden.site)
            if again is not None:
                return all(np.array_equal(_parts(again)[name], part) for name, part in change.parts.items())
    return False


def _computed(compute: Callable[[Site], Any], site: Site) -> Any:
    """What is made of a site; None where it cannot be."""
    try:
        with np.errstate(all="ignore"):
            return compute(site)
    except (ValueError, IndexError, KeyError, TypeError):  # shapes that do not fit, a place that is not there
        return None


def _nearness(first: Judged) -> Near:
    cells = first.cells if first.cells.any() else first.evidence.judged
    actual = first.evidence.actual[cells].astype(np.float64)
    bound = _NEARLY * float(np.abs(actual - first.truth[0][cells]).max(initial=0))

    def near(compute: Compute, site: Site) -> bool:
        result = _computed(compute, site)
        first.work.call()
        if result is None or result[0].shape != cells.shape:
            return False
        with np.errstate(all="ignore"):
            return bool((np.abs(result[0][cells] - actual) <= bound).all())

    return near


def _pair(tap: Judged, first: Hypothesis, second: Hypothesis) -> Suspect:
    assert isinstance(first.compute, OfSite)
    pair = Hypothesis(
        name_of(first, second),
        f"{first.says}, and {second.says}",
        f"{first.fix}; {second.fix}",
        first.compute.then(second.compute),
        max(COMBINED + min(_RARER, (first.rank.steps + second.rank.steps) / 2), second.rank + 1),
    )
    return Suspect(pair, {tap.evidence.site.place.pattern: pair})
