"""How any op goes wrong: a narrower type at one of its steps, a factor, a bound, sums without their tail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from qwen3_golden import Array
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.mistakes.factors import named
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import Observed, asks_for_all, explains, factor_between, likely, narrowed, unit_of
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.rounding import EIGHT_BITS, ROUNDED, as_tf32
from qwen3_spec.arithmetic import FLOAT64
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

Rounded = Callable[[Array], Array]


def casts(
    site: Site,
    observed: Observed | None,
    name: str,
    fix: str,
    types: Iterable[tuple[str, Rounded]] = ROUNDED,
    *,
    operands: int = 0,
    multiplied: bool = False,
) -> Iterator[Hypothesis]:
    """Narrower types: at one step of the op, at its first or last ones, at both ends, throughout.

    Without a tap, the first `operands` steps are what a kernel of products reads in its own type: narrow ones are as
    plain as a narrow result, and plainer than that of an op which is `multiplied` there. In 8 bits a cache is plainer.
    """
    passed, explained, hidden = steps_at(site), False, asks_for_all()
    stored, read = OPS[site.place.op].stored, frozenset(passed[:operands])
    every = (*types, *(EIGHT_BITS if hidden and operands else ()))
    for (says, steps, rank), (type_, rounded) in _in_types(every, lambda: _choices(passed, stored)):
        if (type_, rounded) in EIGHT_BITS and not read.issuperset(steps):
            continue
        hypothesis = Hypothesis(name, says.format(type_), f"{fix}; in float32", partial(_cast, steps, rounded), rank)
        if hidden and read.issuperset(steps):
            hypothesis = replace(hypothesis, rank=RARE if (type_, rounded) in EIGHT_BITS else PLAIN)
        elif hidden and multiplied and steps == passed[-1:]:
            hypothesis = replace(hypothesis, rank=PLAIN + 0.5)
        if hidden or (rank.plain if observed is None else explains(site, observed, _quick(steps, rounded, site))):
            explained = True
            yield hypothesis
    if explained or observed is None:
        return
    for step, (type_, rounded) in product(passed if types is ROUNDED else (), EIGHT_BITS):
        if explains(site, observed, _quick([step], rounded, site)):
            says = f"rounds its {step} to {type_}"
            yield Hypothesis(name, says, f"{fix}; in float32", partial(_cast, [step], rounded), RARE)


_Type = tuple[str, Rounded]
_Choice = tuple[str, list[str], Rank]


def _in_types(types: Sequence[_Type], choices: Callable[[], Iterable[_Choice]]) -> Iterator[tuple[_Choice, _Type]]:
    """Every choice of steps in every type; TF32, whose bits are float16's, beside that, choice by choice."""
    groups: list[list[_Type]] = []
    for type_ in types:
        if groups and as_tf32(groups[-1][-1][0]) == type_[0]:
            groups[-1].append(type_)
        else:
            groups.append([type_])
    for group in groups:
        yield from product(choices(), group)


def steps_at(site: Site) -> list[str]:
    """The steps that the op takes at this site, in their order."""
    passed: list[str] = []

    def at(step: str, value: Array) -> Array:
        passed.append(step)
        return value

    with np.errstate(all="ignore"):
        OPS[site.place.op].at_site(site, FLOAT64, at)
    return [step for step in OPS[site.place.op].steps if step in passed]


def _choices(steps: list[str], stored: Sequence[str]) -> Iterator[_Choice]:
    """What it says, the steps, and the rank of each choice of steps."""
    yield f"rounds its {steps[-1]} to {{}}", steps[-1:], PLAIN
    yield "is computed in {} throughout", steps, PLAIN + 1
    for step in steps[:-1]:
        yield f"rounds its {step} to {{}}", [step], PLAIN + 1
    for count in range(2, len(steps)):
        first, last = steps[:count], steps[-count:]
        listed = " and ".join(first) if count == 2 else f"first steps, up to the {first[-1]},"
        yield f"rounds its {listed} to {{}}", first, PLAIN + 1 if count == 2 else RARE
        yield f"is computed in {{}} from the {last[0]} on", last, RARE
    if len(steps) > 3:  # of what a library computes in one call, not every step is stored
        for step in steps[1:-1]:
            yield f"is computed in {{}} but for its {step}", [each for each in steps if each != step], RARE
    for step in steps[2:]:
        if step == steps[-1] or step in stored:
            yield f"rounds its {steps[0]} and its {step} to {{}}", [steps[0], step], RARE


def rounded_at(
    site: Site, steps: Iterable[str], rounded: Rounded, reach: Callable[[Array], Array] | None = None
) -> Array:
    """The op with roundings at `steps`, the last one aside, in float64; of `value + reach(value)` where it is given."""
    inside = frozenset(steps) & {*OPS[site.place.op].steps[:-1]}

    def at(step: str, value: Array) -> Array:
        if step not in inside:
            return value
        return np.asarray(rounded(value if reach is None else value + reach(value)), np.float64)

    return OPS[site.place.op].at_site(site, FLOAT64, at)


def either_way(site: Site, steps: Iterable[str], rounded: Rounded) -> tuple[Array, Array, Array]:
    """The op with roundings inside, and both values that float32 may make of it where a value is near a tie.

    On the way a value is as noisy, relative to its size, as the op's output where it has its shape; a few roundings
    where it has another one.
    """
    y, unit = OPS[site.place.op].truth(site)
    tolerance = headroom("op", site.place.op).max
    relative = tolerance * unit_of((y, unit)) / np.where(y == 0, 1, np.abs(y))

    def reach(value: Array) -> Array:
        return np.abs(value) * (relative if value.shape == y.shape else 2 * tolerance * FLOAT32_ROUNDOFF)

    ends = [rounded_at(site, steps, rounded, way) for way in (reach, lambda value: -reach(value))]
    return rounded_at(site, steps, rounded), ends[0], ends[1]


def _cast(steps: Iterable[str], rounded: Rounded, site: Site) -> Result:
    if not site.values.units:
        y = rounded_at(site, steps, rounded)
        return np.asarray(rounded(y) if OPS[site.place.op].steps[-1] in steps else y, np.float64), np.zeros(())
    y, *ends = either_way(site, steps, rounded)
    moved = np.abs(ends[0] - ends[1])
    unit = unit_of(OPS[site.place.op].truth(site)) + np.where(np.isfinite(moved), moved, 0)
    return narrowed(y, unit, rounded) if OPS[site.place.op].steps[-1] in steps else (y, unit)


def _quick(steps: Iterable[str], rounded: Rounded, site: Site) -> Result:
    """The same as if nothing were near a tie."""
    y, unit = rounded_at(site, steps, rounded), unit_of(OPS[site.place.op].truth(site))
    return narrowed(y, unit, rounded) if OPS[site.place.op].steps[-1] in steps else (y, unit)


def scaled(site: Site, observed: Observed | None, name: str, fix: str, rank: Rank = PLAIN + 1) -> Iterator[Hypothesis]:
    """The output times the number that brings it closest to what was recorded."""
    if observed is None:
        return
    factor = factor_between(observed.truth[observed.wrong], observed.actual[observed.wrong].astype(np.float64))
    if np.isfinite(factor) and abs(factor) > 1e-6:
        words = named(factor, site.config) or f"{factor:.7g}"
        yield from likely(
            site, observed, [Hypothesis(name, f"is scaled by {words}", fix, partial(times, factor), rank)]
        )


def times(factor: float, site: Site) -> Result:
    """The right output times a number."""
    y, unit = OPS[site.place.op].truth(site)
    return factor * y, abs(factor) * unit_of((y, unit))


_AT_A_BOUND = 1 - 2.0**-21
"""How near to the largest number others are that were cut off with it."""


def clamped(
    site: Site, observed: Observed | None, name: str, fix: str, bounds: Iterable[float], rank: Rank = RARE
) -> Iterator[Hypothesis]:
    """The output cut off at a bound: one that models have, or the largest number recorded, if several are as large."""
    sizes: Array = np.zeros(0) if observed is None else np.abs(observed.actual[np.isfinite(observed.actual)])
    largest = [float(sizes.max())] if sizes.size and (sizes >= sizes.max() * _AT_A_BOUND).sum() > 1 else []
    for bound in sorted({*bounds, *largest} - {0.0}):
        guess = Hypothesis(name, f"clamps its output to ±{bound:g}", fix, partial(_cut_off, bound), rank)
        yield from likely(site, observed, [guess])


def _cut_off(bound: float, site: Site) -> Result:
    y, unit = OPS[site.place.op].truth(site)
    return np.clip(y, -bound, bound), unit


def softly_capped(
    site: Site, observed: Observed | None, name: str, fix: str, caps: Iterable[float], rank: Rank = RARE
) -> Iterator[Hypothesis]:
    """The output behind `cap tanh(y / cap)`: with a cap that models have, or the one that the numbers tell."""
    for cap in dict.fromkeys((*caps, *(() if observed is None else _fitted_cap(observed)))):
        says = f"caps its output softly: {cap:.6g} * tanh(y / {cap:.6g})"
        yield from likely(site, observed, [Hypothesis(name, says, fix, partial(_capped, cap), rank)])


def _capped(cap: float, site: Site) -> Result:
    y, unit = OPS[site.place.op].truth(site)
    capped = cap * np.tanh(y / cap)
    return capped, unit_of((y, unit)) * (1 - (capped / cap) ** 2) + FLOAT32_ROUNDOFF * np.abs(capped)


def _fitted_cap(observed: Observed) -> Iterator[float]:
    """The soft cap that brings the largest number where it was recorded."""
    truth, actual = (np.abs(values[observed.wrong].astype(np.float64)) for values in (observed.truth, observed.actual))
    shrunk = (actual < truth) & (actual > 0)
    if not shrunk.any():
        return
    largest = np.argmax(np.where(shrunk, truth, 0))
    y, z = float(truth[largest]), float(actual[largest])
    low, high = z * (1 + 1e-12), 1e6
    for _ in range(100):  # z = cap tanh(y / cap) grows with cap
        cap = (low * high) ** 0.5
        low, high = (cap, high) if cap * np.tanh(y / cap) < z else (low, cap)
    yield float((low * high) ** 0.5)


BLOCKS = (256, 128, 64, 32, 16, 8, 4, 2)
"""Sizes that kernels cut axes into."""

Counts = Callable[[int], Array]
"""How often each of so many terms of a sum is counted, `[terms]`."""


def miscounted(
    site: Site,
    observed: Observed | None,
    name: str,
    width: int,
    counted: Callable[[Counts, Site], Result | None],
    fitted: Iterable[tuple[str, int]] = (),
    *,
    grows: bool = False,
) -> Iterator[Hypothesis]:
    """Terms of every sum of `width` left out (`name`: "….lost_terms") or counted twice ("….doubled_terms").

    They are those that fill no whole block, or as many at one end as the numbers tell (`fitted`: which end, how many).
    `counted(counts, site)` is the op with its terms counted so often. The width `grows` from step to step, or is fixed.
    """
    fix = "count each term of a sum once, those that fill no whole block too"
    sizes = {block if grows else width % block: block for block in BLOCKS[::-1] if 0 < width % block < width}
    for block in sizes.values():
        beyond = f"of the {width} terms of its sums, those beyond the last whole block of {block}"
        for verb, times in (("leaves out", 0), ("counts twice", 2)):
            says = f"{verb} the last{_several(width % block)} {beyond}"
            compute = partial(counted, partial(_tail_counts, block, times))
            full_name = name if not times else name.replace("lost", "doubled")
            yield from likely(site, observed, [Hypothesis(full_name, says, fix, compute, PLAIN + 1 + times // 2)])
    for end, count in fitted:
        if end == "first" or count not in sizes:
            says = f"leaves out the {end}{_several(count)} of the {width} terms of its sums"
            yield from likely(
                site,
                observed,
                [Hypothesis(name, says, fix, partial(counted, partial(_without, end, count)), PLAIN + 1)],
            )


def _several(count: int) -> str:
    return f" {count}" if count > 1 else ""


def _tail_counts(block: int, times: int, width: int) -> Array:
    return np.where(np.arange(width) < width - width % block, 1.0, times)


def _without(end: str, count: int, width: int) -> Array:
    counted = np.arange(width) < width - count if end == "last" else np.arange(width) >= count
    return np.where(counted, 1.0, 0.0)
