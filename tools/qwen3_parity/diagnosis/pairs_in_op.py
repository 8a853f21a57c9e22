"""Two mistakes in one op: one changes what the op is given, the other one is looked for on that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.judged import Judged, predicted
from qwen3_parity.diagnosis.pairs import RANK, name_of
from qwen3_parity.diagnosis.search import Search
from qwen3_parity.diagnosis.suspects import Suspect, every_suspect, library_of
from qwen3_parity.mistakes.hypothesis import Hypothesis, OfSite

_PLAIN = 3
"""How plain a mistake must be to be thought of as one of two."""
_SAME = 6
"""Digits to which two changes of a tap are the same."""


def pairs_in_op(first: Judged, search: Search) -> Iterator[Suspect]:
    """Two mistakes at a time of a tap whose op was given what was recorded, those first that come closest alone."""
    if not first.in_shape or first.large:
        return
    site = first.evidence.site
    for one in _changes(first, search):
        assert isinstance(one.compute, OfSite)
        if search.over():
            return
        changed = one.compute.change(site)
        if changed is None or changed.place.op != site.place.op:
            continue
        for other in library_of(changed, search.failures):
            pair = _pair(one, other)
            yield Suspect(pair, {site.place.pattern: pair})


def _changes(first: Judged, search: Search) -> Sequence[Hypothesis]:
    """Plain mistakes that are a changed site, one of those that make the same of the tap, the closest first."""
    made: dict[bytes, tuple[float, Hypothesis]] = {}
    actual, right = first.in_units(first.evidence.actual), first.in_units(first.truth[0])
    plain = [x for x in every_suspect(first.evidence, search.failures) if x.hypothesis.rank <= _PLAIN]
    for suspect in sorted(plain, key=lambda x: x.hypothesis.rank):
        result = predicted(suspect, first) if isinstance(suspect.hypothesis.compute, OfSite) else None
        if result is None or result[0].shape != first.truth[0].shape:
            continue
        with np.errstate(all="ignore"):
            values = first.in_units(result[0])
            left = _size(values - actual)
        if not np.array_equal(values, right):
            made.setdefault(_key(values), (left, suspect.hypothesis))
    return [one for _, one in sorted(made.values(), key=lambda pair: pair[0])]


def _size(error: Array) -> float:
    found = float(np.linalg.norm(error))
    return found if np.isfinite(found) else np.inf


def _key(values: Array) -> bytes:
    size = float(np.abs(values[np.isfinite(values)]).max(initial=0)) or 1.0
    return np.round(values / size, _SAME).tobytes()


def _pair(one: Hypothesis, other: Hypothesis) -> Hypothesis:
    compute = one.compute
    assert isinstance(compute, OfSite)
    return Hypothesis(
        name_of(one, other),
        f"{one.says}, and {other.says}",
        f"{one.fix}; {other.fix}",
        compute.then(other.compute),
        RANK + one.rank + other.rank,
    )
