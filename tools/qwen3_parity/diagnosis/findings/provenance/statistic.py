"""A norm that divides by somebody else's statistic: each row has a factor, and another row, step or layer gives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.provenance.form import form_of
from qwen3_parity.diagnosis.findings.provenance.maps import MOVED, Held, Wording, mapped, moved
from qwen3_parity.diagnosis.findings.provenance.matches import CHANCE
from qwen3_parity.diagnosis.findings.provenance.sources import Source, like, recorded
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_NEAR = 4e-6
"""How far a quotient of two statistics may be off: roundings of float32."""
_TAPS = 32
"""Taps whose statistics are looked at, the nearest first."""

_STATISTICS: Mapping[str, Callable[[Array, float], Array]] = {
    "root mean square": lambda x, eps: np.sqrt(np.mean(x * x, axis=-1) + eps),
    "standard deviation": lambda x, eps: np.sqrt(np.var(x, axis=-1) + eps),
}
"""`[..., number] -> [...]`, with the config's eps."""


def other_statistic(tap: WrongTap) -> Finding | None:
    """Rows that are right but for a factor each, where it makes of a row's statistic that of another place.

    Rows are those of the first tap that this one reads; a factor is one number, so that few rows prove it by their
    precision, and many by all having moved alike.
    """
    if tap.actual.dtype.kind != "f" or tap.unit is None or not tap.wrong.any() or not tap.actual.ndim:
        return None
    form = form_of(tap.axes, tap.truth.shape)
    wrong = form.of(tap.wrong).any(axis=3)
    factors = _factors(tap)
    reads = next((key for key in tap.reads if any(recorded(tap, key))), None)
    if factors is None or reads is None:
        return None
    keys = [reads, *(key for key in like(tap, reads[0]) if key != reads)][:_TAPS]
    sources = [source for key in keys for source in recorded(tap, key, reads[0])]
    rows = [source.form.with_heads_of(source.values, form) for source in sources]
    if rows[0].shape[:3] != wrong.shape:
        return None
    at = np.argwhere(wrong)
    for name, statistic in _STATISTICS.items():
        every = [statistic(row, tap.eps) for row in rows]
        maps = _maps(every[0][wrong] / factors[wrong], every, at)
        if maps is not None:
            return _in_words(tap, maps, sources, name)
    return None


def _factors(tap: WrongTap) -> Array | None:
    """`[batch, position, head]`: what each row is multiplied with; None where that is not all that is wrong."""
    form = form_of(tap.axes, tap.truth.shape)
    judged = form.of(tap.judged)
    actual, truth = (np.where(judged, form.of(values), 0) for values in (tap.actual, tap.truth))
    factors = (actual * truth).sum(axis=3) / (truth * truth).sum(axis=3)
    off = np.abs(actual - factors[..., None] * truth) > form.of(tap.limits) * np.maximum(1, np.abs(factors))[..., None]
    return None if (off & form.of(tap.wrong)).any() else np.asarray(factors)


def _maps(asked: Array, every: list[Array], at: Array) -> list[Held] | None:
    """Where the statistics stand that the wrong rows divide by; None where one stands nowhere, or all may by chance."""
    have = np.concatenate([statistics.ravel() for statistics in every])
    source = np.repeat(np.arange(len(every)), [statistics.size for statistics in every])
    of = np.concatenate([np.argwhere(np.ones(statistics.shape, bool)) for statistics in every])
    order = np.argsort(have, kind="stable")
    first = np.searchsorted(have[order], asked * (1 - _NEAR))
    last = np.searchsorted(have[order], asked * (1 + _NEAR), "right")
    near = [np.sort(order[begin:end]) for begin, end in zip(first, last, strict=True)]
    if not all(map(len, near)):
        return None
    number = np.repeat(np.arange(len(at)), [len(candidates) for candidates in near])
    maps = mapped(np.stack([number, np.concatenate(near)], axis=1), at, source, of)
    moves = sum(len(np.unique(held.of - held.at, axis=0)) for held in maps)
    spread = float(np.std(have) / np.mean(have))
    if not spread > 0:
        return None
    chance = len(at) * math.log10(min(1.0, 2 * _NEAR / spread)) + moves * math.log10(len(_STATISTICS) * len(have))
    return maps if chance < CHANCE else None


def _in_words(tap: WrongTap, maps: list[Held], sources: list[Source], statistic: str) -> Finding:
    form = form_of(tap.axes, tap.truth.shape)
    how = Wording(form.words[:3], form.counts(tap.judged)[:3], verb=("are divided by", "is divided by"))
    largest = max(maps, key=lambda held: len(held.places))
    axes, kind = moved(largest), sources[largest.source].kind
    if largest.source == 0 and axes:
        kind = MOVED[axes[0]]
    says = (how.text(held, f"the {statistic} of {sources[held.source].says}") for held in maps)
    return Finding(f"from.{kind}", "; ".join(says), 1.0)
