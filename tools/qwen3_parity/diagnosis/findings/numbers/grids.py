"""Numbers that stand on a coarser grid than their type's: a narrower type's, or whole steps of a scale."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.groupings import Grouping, groupings
from qwen3_parity.diagnosis.findings.numbers.steps import STEPS, Integers, Sample, Steps, spacing
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.mistakes.rounding import EIGHT_BITS, ROUNDED

_FEWEST = 8
"""Wrong numbers that a grid is told from."""
_FEWEST_NARROW = 3
"""Different ones that a narrower type is told from: by chance one is of it in thousands."""
_SAMPLED = 4096
"""Wrong numbers that are looked at."""
_SPACINGS = {"bfloat16": 2.0**-9, "float16": 2.0**-12, "TF32": 2.0**-12}
"""How far a number may be rounded, of its size."""
_SUMS, _COMPUTED = 4.0, 0.92
"""How many such roundings a result computed in it is off in the mean, and what that tells."""
_LIKELY = 0.9
"""What a grid tells whose nearest numbers to the right ones are not those that were recorded, as by other roundings."""

_CUT_OFF = "; what should be larger than the largest of them is cut off there"


def grid(tap: WrongTap) -> Finding | None:
    """Every wrong number is one of a narrower type's: stored or computed in it, maybe with a scale."""
    usable = floats(tap)
    if usable is None or not tap.wide:
        return None
    actual, truth, wrong = usable
    values = actual[wrong & (actual != 0)]
    alone = tap.truth.size == 1  # a loss: one number in 65,536 is by chance one of 16 bits less
    if len(np.unique(np.abs(values))) < (1 if alone else _FEWEST_NARROW):
        return None
    for name, rounded in ROUNDED[:1] if alone else (*EIGHT_BITS, *ROUNDED):  # the narrowest first
        if np.mean(rounded(values) == values) < 0.999:
            continue
        near = explained(tap, rounded(truth).astype(np.float64))
        says, weight = f"its numbers are those of {name}", max(near, 0.6)
        off = np.sqrt(np.square(actual - truth)[wrong].sum() / np.square(truth)[wrong].sum())
        if near == 1:
            says += ", and right when rounded to it"
        elif not alone and off <= _SUMS * _SPACINGS.get(name, 0):
            says, weight = f"{says}, and as near to the right ones as what is computed in it", _COMPUTED
        else:
            says += ", and differ from the right ones rounded to it"
        return Finding("fit.grid", says, weight)
    if len(values) < _FEWEST:
        return None
    samples = [(grouping, _sample(tap, grouping)) for grouping in groupings(truth.shape, tap.axes)]
    for steps in STEPS:
        for grouping, sample in samples:
            nearest = steps.on(sample)
            if nearest is not None:
                words = steps.words.format(grouping.words) + (_CUT_OFF if sample.cut_off.any() else "")
                return Finding(_name(tap, steps), f"its numbers are {words}", _certainty(sample, nearest))
    whole = samples[0][1]
    if (steps_of := spacing(whole)) is None:
        return None
    step, most, nearest = steps_of
    says = (
        f"its numbers are whole multiples of {step:.4g}, up to {most} of them: integers of few bits, by one scale for "
        f"all, which is not read off their own largest number{_CUT_OFF if whole.cut_off.any() else ''}"
    )
    return Finding("cache.quantised" if _is_cached(tap) else "fit.grid", says, _certainty(whole, nearest))


def _certainty(sample: Sample, nearest: Array) -> float:
    return 1.0 if (np.abs(sample.actual - nearest) <= sample.limits).all() else _LIKELY


def _sample(tap: WrongTap, grouping: Grouping) -> Sample:
    """The first wrong numbers, with the ends of their groups and what each may be off."""
    parts, judged = grouping.of(tap.actual), grouping.of(tap.judged & np.isfinite(tap.actual))
    low = parts.min(grouping.across, keepdims=True, where=judged, initial=np.inf)
    high = parts.max(grouping.across, keepdims=True, where=judged, initial=-np.inf)
    flat = np.flatnonzero(tap.wrong & np.isfinite(tap.actual) & np.isfinite(tap.truth))[:_SAMPLED]
    at = np.unravel_index(flat, grouping.split)
    group = tuple(np.zeros_like(index) if axis in grouping.across else index for axis, index in enumerate(at))
    number = np.ravel_multi_index(group, low.shape)
    actual, truth, limits = (values.ravel()[flat] for values in (tap.actual, tap.truth, tap.limits))
    return Sample(actual, truth, limits, low[group], high[group], np.unique(number, return_inverse=True)[1])


def _name(tap: WrongTap, steps: Steps) -> str:
    if isinstance(steps, Integers) and steps.levels == 127:
        return "cache.quantised" if _is_cached(tap) else "fit.grid"
    return "invariant.grid"


def _is_cached(tap: WrongTap) -> bool:
    return any(op.startswith("cache") for op in tap.ops) or tap.name.startswith("cache.")
