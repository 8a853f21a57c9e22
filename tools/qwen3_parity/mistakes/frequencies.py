"""Wrong RoPE frequencies, as rules: for the table of frequencies, for cos and sin made from it, for RoPE itself."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.ranks import COMBINED, PLAIN, RARE, Rank
from qwen3_parity.mistakes.rounding import ROUNDED
from qwen3_spec import SpecConfig, ops

Change = Callable[[Array, SpecConfig], Array]
"""Right frequencies `[pair]` and the configuration -> wrong ones."""


@dataclass(frozen=True)
class Rule:
    """A wrong table of frequencies; `says` completes "this op …"."""

    name: str
    says: str
    change: Change
    rank: Rank = PLAIN
    fix: str = ""


def _indices(f: Array) -> Array:
    return np.arange(len(f), dtype=np.float64)


def _stretch(f: Array, c: SpecConfig) -> Array:
    """What a scaling of RoPE multiplies plain frequencies by, `[pair]`; 1 without one."""
    if c.rope_scaling is None:
        return np.ones(len(f))
    return ops.inv_freq.forward(2 * len(f), c.rope_theta, c.rope_scaling) / ops.inv_freq.forward(
        2 * len(f), c.rope_theta
    )


def _power(exponent: Callable[[Array, SpecConfig], Array]) -> Change:
    return lambda f, c: np.asarray(_stretch(f, c) * float(c.rope_theta) ** -exponent(_indices(f), c))


def _theta(theta: Callable[[SpecConfig], float]) -> Change:
    return lambda f, c: ops.inv_freq.forward(2 * len(f), theta(c), c.rope_scaling)


def _plain(theta: float, _: SpecConfig) -> float:
    return theta


def _times_theta(factor: float, c: SpecConfig) -> float:
    return c.rope_theta * factor


def _ntk(factor: float, c: SpecConfig) -> float:
    return float(c.rope_theta * factor ** (c.head_dim / max(c.head_dim - 2, 1)))


def _times(factor: float, f: Array, _: SpecConfig) -> Array:
    return f * factor


def _rounded(r: Callable[[Array], Array], f: Array, _: SpecConfig) -> Array:
    return r(f)


def _rounded_exponent(r: Callable[[Array], Array], f: Array, c: SpecConfig) -> Array:
    return np.asarray(float(c.rope_theta) ** -np.asarray(r(2 * _indices(f) / c.head_dim), np.float64))


def _llama3(factor: float) -> Change:
    """Llama 3.1's bands: long waves divided by the factor, short ones left, a ramp between."""

    def change(f: Array, _: SpecConfig) -> Array:
        waves = 8192 * f / (2 * math.pi)
        ramp = np.clip((waves - 1) / 3, 0, 1)
        return np.asarray(f * (ramp + (1 - ramp) / factor))

    return change


def _yarn(factor: float, longest: int) -> Change:
    """YaRN's ramp between interpolated and plain frequencies (beta 32 and 1)."""

    def change(f: Array, c: SpecConfig) -> Array:
        def pair(beta: float) -> float:
            return len(f) * math.log(longest / (beta * 2 * math.pi)) / math.log(c.rope_theta)

        low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), 2 * len(f) - 1)
        ramp = np.clip((_indices(f) - low) / max(high - low, 1e-3), 0, 1)
        return np.asarray(f * (1 - ramp) + f / factor * ramp)

    return change


def _partial(rotary: Callable[[int], int]) -> Change:
    """A table over fewer channels, the rest at rest."""

    def change(f: Array, c: SpecConfig) -> Array:
        pairs = rotary(len(f))
        freq = np.zeros(len(f))
        freq[:pairs] = float(c.rope_theta) ** -(_indices(f)[:pairs] / pairs)
        return freq

    return change


_THETAS = (1e4, 1e6, 5e5, 1e5, 5e6, 1e7, 160000.0, 10000000000.0, 2e6, 8e6, 3e6)
_FACTORS = (2, 4, 8, 16, 32, 40)

_RULES: tuple[Rule, ...] = (
    *(Rule("table.theta", f"uses theta {t:g}", _theta(partial(_plain, t))) for t in _THETAS),
    *(Rule("table.theta", f"uses theta × {k:g}", _theta(partial(_times_theta, k)), PLAIN + 1) for k in (10, 0.1, 100, 0.01, 2, 0.5)),
    Rule("table.exponent", "raises theta to -i / head_dim (the same as the root of theta)", _power(lambda i, c: i / c.head_dim)),
    Rule("table.exponent", "raises theta to -4 i / head_dim", _power(lambda i, c: 4 * i / c.head_dim)),
    Rule("table.exponent", "divides the exponent by hidden_size", _power(lambda i, c: 2 * i / c.hidden_size)),
    Rule("table.exponent", "divides the exponent by hidden_size / heads", _power(lambda i, c: 2 * i * c.num_attention_heads / c.hidden_size)),
    Rule("table.exponent", "divides the exponent by heads * head_dim", _power(lambda i, c: 2 * i / c.head_dim / c.num_attention_heads), PLAIN + 1),
    Rule("table.exponent", "divides the exponent by head_dim - 2 (ends at 1)", _power(lambda i, c: 2 * i / max(c.head_dim - 2, 1))),
    Rule("table.exponent", "divides the exponent by head_dim - 1", _power(lambda i, c: 2 * i / (c.head_dim - 1)), PLAIN + 1),
    Rule("table.exponent", "divides the exponent by head_dim + 2", _power(lambda i, c: 2 * i / (c.head_dim + 2)), PLAIN + 1),
    Rule("table.exponent", "starts at i = 1", _power(lambda i, c: 2 * (i + 1) / c.head_dim)),
    Rule("table.exponent", "starts at i = -1: each pair has the frequency of the pair before it", _power(lambda i, c: 2 * (i - 1) / c.head_dim)),
    Rule("table.exponent", "uses odd numerators 2 i + 1", _power(lambda i, c: (2 * i + 1) / c.head_dim), PLAIN + 1),
    Rule("table.exponent", "has every second frequency twice (i rounded down to even)", _power(lambda i, c: 2 * (i // 2 * 2) / c.head_dim), PLAIN + 1),
    Rule("table.exponent", "has each frequency twice (i // 2)", _power(lambda i, c: 2 * (i // 2) / c.head_dim), PLAIN + 1),
    Rule("table.exponent", "runs i from the other end", lambda f, c: f[::-1], PLAIN + 1),
    Rule("table.exponent", "has positive exponents: positions are divided by the frequencies", lambda f, c: 1 / f),
    Rule("table.exponent", "has frequencies negated", lambda f, c: -f, PLAIN + 1),
    Rule("table.partial", "is made for half of the channels, the rest does not turn", _partial(lambda n: n // 2), PLAIN + 1),
    Rule("table.partial", "is made for a quarter of the channels, the rest does not turn", _partial(lambda n: max(n // 4, 1)), PLAIN + 1),
    Rule("table.partial", "has no frequency for the last pair", lambda f, c: np.where(_indices(f) < len(f) - 1, f, 0), RARE),
    Rule("table.partial", "has no frequency for the first pair", lambda f, c: np.where(_indices(f) > 0, f, 0), RARE),
    Rule("table.roll", "has its frequencies one pair to the right", lambda f, c: np.roll(f, 1), RARE),
    Rule("table.roll", "has its frequencies one pair to the left", lambda f, c: np.roll(f, -1), RARE),
    Rule("table.empty", "is all zeros: never made", lambda f, c: np.zeros_like(f)),
    Rule("table.empty", "is all ones: never made", lambda f, c: np.ones_like(f), PLAIN + 1),
    Rule("table.linear_scaling", "counts the angle in degrees", lambda f, c: f * math.pi / 180),
    Rule("table.linear_scaling", "counts the angle in turns", lambda f, c: f * 2 * math.pi, PLAIN + 1),
    *(Rule("table.linear_scaling", f"divides frequencies by {k}", partial(_times, 1 / k)) for k in _FACTORS),
    *(Rule("table.linear_scaling", f"multiplies frequencies by {k}", partial(_times, k)) for k in _FACTORS),
    *(Rule("table.ntk_scaling", f"raises theta by factor {k} (NTK)",
           _theta(partial(_ntk, k)), PLAIN + 1) for k in _FACTORS),
    *(Rule("table.llama3_scaling", f"scales by bands with factor {k} (Llama 3)", _llama3(k), PLAIN + 1) for k in _FACTORS),
    *(Rule("table.yarn_scaling", f"scales as YaRN does, factor {k} over {n} positions", _yarn(k, n), PLAIN + 1)
      for k in (2, 4, 8, 16, 32, 40) for n in (4096, 8192, 32768)),
    *(Rule("table.half_precision", f"rounds frequencies to {kind}", partial(_rounded, r)) for kind, r in ROUNDED),
    *(Rule("table.half_precision", f"computes the exponent in {kind}",
           partial(_rounded_exponent, r), PLAIN + 1) for kind, r in ROUNDED),
)  # fmt: skip


def rules(truth: Array, config: SpecConfig) -> Iterator[Rule]:
    """Every rule that gives another table than `truth[pair]`."""
    for rule in _RULES:
        if not np.allclose(rule.change(truth, config), truth, rtol=1e-9, atol=0):
            yield rule


def fitted(truth: Array, actual: Array, config: SpecConfig) -> Iterator[Rule]:
    """What a whole table of wrong frequencies tells: another theta, a common factor, or nothing but itself."""
    if not (np.isfinite(actual).all() and (actual > 0).all()) or np.allclose(actual, truth, rtol=1e-7, atol=0):
        return
    every = np.log(actual[1:]) / -(_indices(actual)[1:] / len(actual))
    rest = every if config.rope_scaling is None else every[:1]  # other pairs may be on YaRN's ramp
    if len(every) > 1 and abs(actual[0] - 1) < 1e-5 and rest[0] > 0 and np.ptp(rest) < 1e-4:
        theta = float(np.exp(rest[-1]))
        yield Rule(
            "table.theta", f"uses theta {theta:.7g}, not {config.rope_theta:g}", _theta(lambda _: theta), PLAIN + 1
        )
    ratio = actual / truth
    if np.ptp(ratio) < 1e-5 * abs(ratio[0]):
        factor = float(np.median(ratio))
        yield Rule("table.linear_scaling", f"scales frequencies by {factor:.7g}", lambda f, _: f * factor, PLAIN + 1)
    shown = ", ".join(f"{value:.4g}" for value in actual[:6])
    table = actual.copy()
    yield Rule("table.unknown", f"uses other frequencies: {shown} …", lambda f, _: table, COMBINED + 2)
