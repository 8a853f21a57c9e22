"""Wrong RoPE tables: the frequencies, and cos and sin made from positions and frequencies."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes import frequencies, rope_scaling, yarn
from qwen3_parity.mistakes import position_ids as positions
from qwen3_parity.mistakes.factors import named
from qwen3_parity.mistakes.generic import casts
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.observed import Observed, explains, factor_between, likely, observe, unit_of
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_spec import ops
from qwen3_spec.angles import close_unit, nearest_table
from qwen3_spec.ops.rope_table import angles_of
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

FIX = "cos and sin of position * inv_freq, in float32, the pairs twice in a row"
NAMES = {"positions.clamped": "table.clamped_positions", "positions.wrapped": "table.wrapped_positions",
         "positions.half_precision": "table.half_precision", "positions.scaled": "table.linear_scaling"}  # fmt: skip
"""Mistakes with positions that are made while a table is built."""


def table(site: Site) -> Iterator[Hypothesis]:
    """Wrong cos or sin: other positions, other frequencies, another layout, the other function, a factor, narrow types."""
    observed = observe(site)

    def guesses() -> Iterator[Hypothesis]:
        yield from _attention_factors(site)
        yield from _layouts()
        yield from _by_positions(site)
        yield from _by_frequencies(site)
        yield from _unread(site)
        yield from casts(site, observed, "table.half_precision", f"{FIX}; cast last")
        yield from _reduced()
        if observed is not None:
            yield from _factor(site, observed)

    with np.errstate(all="ignore"):
        yield from (
            guess for guess in likely(site, observed, guesses()) if observed is None or _differs(site, observed, guess)
        )


def _differs(site: Site, observed: Observed, guess: Hypothesis) -> bool:
    """Whether the right table is not one that the guess would let pass: its angles are not known to the last bit."""
    return not explains(site, observed._replace(actual=observed.truth), guess.compute(site))


def _which(site: Site) -> int:
    return 0 if site.place.op == "cos" else 1


def _table_of(site: Site, ids: Array, freq: Array) -> Result:
    inputs = (ids, freq, site.config.attention_factor)
    return ops.rope_table.forward(*inputs)[_which(site)], ops.rope_table.unit(*inputs)


def _by_positions(site: Site) -> Iterator[Hypothesis]:
    def compute(rule: positions.Rule, site: Site) -> Result | None:
        ids = rule.change(positions.slots(site, site.inputs[0]))
        return None if ids is None else _table_of(site, np.asarray(ids, np.float64), site.inputs[1])

    s = positions.slots(site, site.inputs[0])
    for rule in positions.rules(s, site.config.sliding_window, positions.longest_of(site)):
        name = NAMES.get(rule.name, rule.name)
        yield Hypothesis(name, f"{rule.says} where the table is made", FIX, partial(compute, rule), rule.rank)


def _by_frequencies(site: Site) -> Iterator[Hypothesis]:
    def compute(rule: frequencies.Rule, site: Site) -> Result:
        freq = np.asarray(site.inputs[1], np.float64)
        return _table_of(site, site.inputs[0], np.asarray(rule.change(freq, site.config), np.float64))

    truth = np.asarray(site.inputs[1], np.float64)
    rules = list(rope_scaling.rules(site.config, site.case.config.max_position_embeddings, truth))
    angles = _angles(site)
    if angles is not None:
        rules += rope_scaling.fitted(site, truth, angles)
    for rule in rules:
        yield Hypothesis(rule.name, f"{rule.says} where the table is made", rule.fix, partial(compute, rule), rule.rank)


def _angles(site: Site) -> Array | None:
    """The frequencies that recorded cos and sin at position 1 tell, `[pair]`."""
    base = site.place.name[:-3]
    cos, sin = (site.values.recorded(f"{base}{leaf}", site.step) for leaf in ("cos", "sin"))
    at = np.argwhere(site.inputs[0] == 1)
    if cos is None or sin is None or not len(at) or cos.shape != sin.shape:
        return None
    row = tuple(at[0])
    pairs = cos.shape[-1] // 2
    return np.asarray(np.arctan2(sin[row][:pairs].astype(np.float64), cos[row][:pairs].astype(np.float64)))


_Function = Callable[[Array], Array]
_Layout = Callable[[Array, _Function, _Function], Array]
"""angle[batch, seq, pair], the right function and the other one -> a table of head_dim channels."""


def _twice(a: Array) -> Array:
    return np.concatenate([a, a], axis=-1)


def _joined(a: Array, b: Array) -> Array:
    return np.concatenate([a, b], axis=-1)


_LAYOUTS: tuple[tuple[str, str, _Layout, Rank], ...] = (
    ("table.swapped_cos_sin", "holds the other function (cos and sin exchanged)", lambda a, f, g: _twice(g(a)), PLAIN),
    ("table.interleaved", "has each frequency twice beside itself, not the row of them twice", lambda a, f, g: np.repeat(f(a), 2, -1), PLAIN),
    ("table.negative_angle", "turns backwards", lambda a, f, g: _twice(f(-a)), PLAIN),
    ("table.negated", "has the sign of all its numbers turned", lambda a, f, g: -_twice(f(a)), PLAIN + 1),
    ("table.half_filled", "leaves the second half without rotation", lambda a, f, g: _joined(f(a), f(0 * a)), PLAIN + 1),
    ("table.half_filled", "leaves the second half zero", lambda a, f, g: _joined(f(a), 0 * a), PLAIN + 1),
    ("table.half_filled", "leaves the first half zero", lambda a, f, g: _joined(0 * a, f(a)), RARE),
    ("table.mirrored", "has its second half in reverse order", lambda a, f, g: _joined(f(a), f(a)[..., ::-1]), RARE),
    ("table.half_negated", "has its second half negated", lambda a, f, g: _joined(f(a), -f(a)), PLAIN + 1),
    ("table.half_negated", "has its first half negated", lambda a, f, g: _joined(-f(a), f(a)), PLAIN + 1),
    ("table.cos_beside_sin", "has the other function in its second half", lambda a, f, g: _joined(f(a), g(a)), PLAIN + 1),
    ("table.cos_beside_sin", "has the other function in its first half", lambda a, f, g: _joined(g(a), f(a)), PLAIN + 1),
    ("table.shifted", "has its channels one to the right", lambda a, f, g: np.roll(_twice(f(a)), 1, -1), RARE),
    ("table.shifted", "has its channels one to the left", lambda a, f, g: np.roll(_twice(f(a)), -1, -1), RARE),
    ("table.magnitude", "has lost its signs", lambda a, f, g: np.abs(_twice(f(a))), RARE),
    ("table.angle", "holds the angles themselves", lambda a, f, g: _twice(a), PLAIN + 1),
)  # fmt: skip


def _laid_out(layout: _Layout, site: Site) -> Result:
    angle = np.asarray(site.inputs[0], np.float64)[..., None] * np.asarray(site.inputs[1], np.float64)
    cos, sin = (np.cos, np.sin) if _which(site) == 0 else (np.sin, np.cos)

    def size(a: Array) -> Array:
        return np.asarray((1 if site.config.attention_factor == 1 else 3) + np.abs(a))

    factor = site.config.attention_factor
    return factor * layout(angle, cos, sin), FLOAT32_ROUNDOFF * np.abs(factor * layout(angle, size, size))


def _layouts() -> Iterator[Hypothesis]:
    for name, says, layout, rank in _LAYOUTS:
        yield Hypothesis(name, says, FIX, partial(_laid_out, layout), rank)


def _reduced() -> Iterator[Hypothesis]:
    turn = float(np.float32(2 * math.pi))

    def compute(site: Site) -> Result:
        actual, factor = site.values.recorded(site.place.name, site.step), site.config.attention_factor
        y = nearest_table(actual, _which(site), (np.fmod(angle, turn) for angle in angles_of(site)), factor)
        return y, close_unit(y.shape, factor)

    says = "takes whole turns of a 2π in float32 off the angle"
    yield Hypothesis("table.range_reduction", says, "reduce angles by a 2π of more digits than float32's", compute)


def _times(factor: float, site: Site) -> Result:
    """A table with `factor` in the place of the attention factor."""
    ids, freq = site.inputs
    return ops.rope_table.forward(ids, freq, factor)[_which(site)], ops.rope_table.unit(ids, freq, factor)


def _attention_factors(site: Site) -> Iterator[Hypothesis]:
    for says, factor in yarn.factors(site.config, site.case.config.max_position_embeddings):
        yield Hypothesis(yarn.FACTOR, says, yarn.fix_factor(site.config), partial(_times, factor))


def _unread(site: Site) -> Iterator[Hypothesis]:
    """Wrong frequencies and a wrong factor at once: neither alone explains a rotation whose tables nobody sees."""

    def compute(change: frequencies.Change, factor: float, site: Site) -> Result:
        freq = np.asarray(change(np.asarray(site.inputs[1], np.float64), site.config), np.float64)
        return _times(factor, replace(site, inputs=(site.inputs[0], freq)))

    truth = np.asarray(site.inputs[1], np.float64)
    for (name, says, change, rank), says_factor, factor in yarn.unread(
        site.config, site.case.config.max_position_embeddings
    ):
        if not np.allclose(change(truth, site.config), truth, rtol=1e-6, atol=0):
            fix = f"{rope_scaling.fix(site.config)}; {yarn.fix_factor(site.config)}"
            both = f"yarn.{name}+{yarn.FACTOR}", f"{says} and {says_factor}", fix
            yield Hypothesis(*both, partial(compute, change, factor), rank + 1)


def _factor(site: Site, observed: Observed) -> Iterator[Hypothesis]:
    # Far positions are noisy in fast pairs: each cell counts by the noise of its angle.
    truth, unit = _table_of(site, site.inputs[0], site.inputs[1])
    factor = factor_between(np.where(observed.wrong, truth, 0) / unit_of((truth, unit)), observed.actual / unit)

    def compute(site: Site) -> Result:
        y, unit = _table_of(site, site.inputs[0], site.inputs[1])
        return factor * y, max(abs(factor), 1) * unit_of((y, unit))

    if np.isfinite(factor) and yarn.applies(site.config):
        expected = site.config.attention_factor
        says = f"is multiplied by {factor * expected:.7g}, not by the attention factor {expected:.7g}"
        yield Hypothesis(yarn.FACTOR, says, yarn.fix_factor(site.config), compute, PLAIN + 1)
    elif np.isfinite(factor):
        words = named(factor, site.config) or f"{factor:.7g}"
        yield Hypothesis(
            "table.scaled",
            f"is scaled by {words} (an attention factor)",
            yarn.fix_factor(site.config),
            compute,
            PLAIN + 1,
        )


MISTAKES: Mapping[str, Mistakes] = {
    "cos": Mistakes((table,)),
    "sin": Mistakes((table,)),
}
