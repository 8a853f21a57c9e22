"""Half precision, reported and not judged: the ops at which a candidate rounds elsewhere than Hugging Face.

Each op again on the candidate's own inputs, with the casts of Hugging Face's modules and float64 between them. What
float32 arithmetic may decide either way, an element near a rounding tie, is left out: the rest must be the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from qwen3_golden import pattern_of, pb
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.mistakes.generic import Rounded, either_way, rounded_at, steps_at
from qwen3_parity.mistakes.observed import unit_of
from qwen3_parity.mistakes.rounding import bfloat16, float16
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

_TAPS = 12
"""Taps of one place that are computed again."""
_REPORTED = 0.01
"""The share of elements from which on it is said."""


@dataclass(frozen=True)
class Casts:
    """A place whose elements are rounded elsewhere: `differing` of `compared`, in `dtype`.

    `kept` says what is kept in float32 that Hugging Face rounds, `rounded` what is rounded that it keeps; with that,
    `unexplained` of them are still others. Both are empty where nothing reproduces most of the elements.
    """

    place: str
    differing: int
    compared: int
    dtype: str
    unrounded: tuple[str, ...] = ()
    rounded: tuple[str, ...] = ()
    unexplained: int = 0

    def __str__(self) -> str:
        where, share = self.place.replace("{layer}", "*"), self.differing / self.compared
        ways = [f"{_listed(self.unrounded)} kept in float32"] * bool(self.unrounded)
        ways += [f"{_listed(self.rounded)} rounded to {self.dtype}"] * bool(self.rounded)
        how = "in no way that is known here"
        if ways:
            how = f"{'most of them ' * bool(self.unexplained)}as with {' and '.join(ways)}"
        ends = ": fewer roundings than Hugging Face's, no fault" if self.unrounded and not self.rounded else ""
        return f"{where}: {share:.0%} of its elements are rounded elsewhere than by Hugging Face, {how}{ends}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


_NARROW: Mapping[int, tuple[str, Rounded]] = {pb.BF16: ("bfloat16", bfloat16), pb.F16: ("float16", float16)}


class _Way(NamedTuple):
    """Casts that a port may have: steps beside the result, and inputs that it reads before they are rounded."""

    steps: frozenset[str]
    wide: frozenset[str] = frozenset()


def casts_elsewhere(judge: TapJudge, verdicts: Sequence[OpVerdict]) -> list[Casts]:
    """The places of a bfloat16 or float16 recording that round elsewhere than Hugging Face, in execution order.

    Judged are a few taps of each place whose op is right and all of whose inputs were recorded; none in float32.
    """
    if judge.values.dtype not in _NARROW:
        return []
    places: dict[str, list[OpVerdict]] = {}
    for verdict in verdicts:
        if _casting(verdict.op) and verdict.passed and not (verdict.reason or verdict.others):
            places.setdefault(pattern_of(verdict.name), []).append(verdict)
    with np.errstate(all="ignore"):
        casts = [_place(judge, place, passing) for place, passing in places.items()]
    return [cast for cast in casts if cast is not None]


def _place(judge: TapJudge, place: str, verdicts: Sequence[OpVerdict]) -> Casts | None:
    chosen = np.linspace(0, len(verdicts) - 1, min(_TAPS, len(verdicts))).astype(int)
    items = [judge.values.recording[verdicts[i].name, verdicts[i].step] for i in chosen]
    taps = [tap for item in items if not isinstance(tap := judge.evidence(item), str)]
    if not taps:
        return None
    dtype, narrow = _NARROW[judge.values.dtype]
    stored = OPS[taps[0].site.place.op].stored
    off_grid = sum(int((tap.judged & (narrow(tap.actual) != tap.actual)).sum()) for tap in taps)
    if off_grid:
        return Casts(place, off_grid, sum(int(tap.judged.sum()) for tap in taps), dtype, unrounded=("its result",))
    hf = frozenset(stored)
    differing, compared = _differing(taps, _Way(hf), narrow)
    if not compared or differing / compared < _REPORTED:
        return None
    counts = {way: _differing(taps, way, narrow) for way in _ways(taps[0].site, narrow)}
    shares = {way: differs / of for way, (differs, of) in counts.items() if of}
    best = min(shares, key=lambda way: shares[way], default=None)
    if best is None or shares[best] > differing / compared / 2:
        return Casts(place, differing, compared, dtype)
    unrounded = *(f"the {step}" for step in stored if step not in best.steps), *sorted(best.wide)
    rounded = tuple(f"the {step}" for step in OPS[taps[0].site.place.op].steps if step in best.steps - hf)
    return Casts(place, differing, compared, dtype, unrounded, rounded, unexplained=counts[best][0])


def _casting(op: str) -> bool:
    """Whether an op has steps at which it may be rounded, and the judge knows by how much float32 may move them."""
    return bool(op in OPS and OPS[op].steps)


def _ways(site: Site, narrow: Rounded) -> Iterator[_Way]:
    """Other casts than Hugging Face's, those nearest to it first."""
    hf = frozenset(OPS[site.place.op].stored)
    inputs = [
        name.rpartition(".")[2] for name in site.names if (place := site.values.place(name)) and _casting(place.op)
    ]
    for count in (1, 2):
        yield from (_Way(hf, frozenset(wide)) for wide in combinations(dict.fromkeys(inputs), count))
    plain = rounded_at(site, (), narrow)
    inside = [step for step in steps_at(site)[:-1] if not np.array_equal(rounded_at(site, [step], narrow), plain)]
    for count in range(1, len(inside) + 1):
        yield from (_Way(hf.symmetric_difference(changed)) for changed in combinations(inside, count))


def _differing(taps: Sequence[Evidence], way: _Way, narrow: Rounded) -> tuple[int, int]:
    """How many elements are others than with these casts, and of how many that are no near-tie."""
    differing = compared = 0
    for tap in taps:
        site = _wide(tap.site, way.wide)
        if site is None:
            continue
        y, *ends = either_way(site, way.steps, narrow)
        noise = headroom("op", site.place.op).max * unit_of(OPS[site.place.op].truth(site))
        values = narrow(y)
        certain = narrow(np.minimum(*ends) - noise) == narrow(np.maximum(*ends) + noise)
        counted = tap.judged & np.isfinite(values) & certain & ((values != 0) | (tap.actual != 0))
        differing += int((counted & (values != tap.actual)).sum())
        compared += int(counted.sum())
    return differing, compared


def _wide(site: Site, names: frozenset[str]) -> Site | None:
    """The site with some of its inputs as they are before they are rounded."""
    if not names:
        return site
    dropped = frozenset(pattern_of(name) for name in site.names if name.rpartition(".")[2] in names)
    return site.values.another(dropped=dropped).site(site.place.name, site.step)
