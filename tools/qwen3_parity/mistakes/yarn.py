"""Wrong stretching of RoPE by YaRN: other frequencies, and other factors on cos and sin, as rules."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.frequencies import Change, Rule
from qwen3_spec import RopeScaling, SpecConfig, ops
from qwen3_spec.site import Site

FACTOR = "yarn.attention_factor"
FIX = (
    "keep a pair that turns beta_fast times over original_max_position_embeddings, divide by factor one that turns "
    "beta_slow times, go over linearly in the pair's index between them (whole pairs where truncate says so)"
)
FIX_FACTOR = (
    "multiply both cos and sin, and nothing else, once by attention_factor: the stated number, else "
    "0.1 mscale ln(factor) + 1 over the same with mscale_all_dim where both are stated, else 0.1 ln(factor) + 1"
)
_LENGTHS = (2048, 4096, 8192, 16384, 32768, 40960, 65536, 131072)


class _Wrong(RopeScaling):
    """Numbers that no configuration could have."""

    def __post_init__(self) -> None:
        """Refuse nothing."""


def _with(**numbers: float) -> Change:
    """Frequencies with other numbers of the scaling."""
    return lambda f, c: ops.inv_freq.forward(2 * len(f), c.rope_theta, _changed(c, **numbers))


def _changed(config: SpecConfig, **numbers: float) -> RopeScaling:
    assert config.rope_scaling is not None
    return _Wrong(**{**asdict(config.rope_scaling), **numbers})


def _by_ramp(change: Callable[[Array, SpecConfig], Array]) -> Change:
    """Frequencies with `change(indices of the pairs, config)` as the ramp: 0 = kept, 1 = divided."""

    def frequencies(f: Array, c: SpecConfig) -> Array:
        assert c.rope_scaling is not None
        ramp = np.clip(change(np.arange(len(f), dtype=np.float64), c), 0, 1)
        plain = ops.inv_freq.forward(2 * len(f), c.rope_theta)
        return np.asarray(plain * (1 - ramp) + plain / c.rope_scaling.factor * ramp)

    return frequencies


def _ramp(index: Array, c: SpecConfig, scale: float = 1.0, theta: float = 0.0) -> Array:
    """The ramp at `index`, its ends `scale` times as far, or found with another `theta`."""
    s = _changed(c)
    low, high = ops.inv_freq.yarn_range(2 * len(index), theta or c.rope_theta, s)
    return np.asarray((index - low * scale) / ((high - low) * scale))


def _by_turns(index: Array, c: SpecConfig) -> Array:
    s = _changed(c)
    turns = s.original_max_position_embeddings * ops.inv_freq.forward(2 * len(index), c.rope_theta) / (2 * math.pi)
    return np.asarray((s.beta_fast - turns) / (s.beta_fast - s.beta_slow))


def _other_logarithm(base: float, index: Array, c: SpecConfig) -> Array:
    """Ends whose numerator has a logarithm of another base than their denominator."""
    s = _changed(c)
    turns = (s.original_max_position_embeddings / (beta * 2 * math.pi) for beta in (s.beta_fast, s.beta_slow))
    low, high = (len(index) * math.log(one, base) / math.log(c.rope_theta) for one in turns)
    if s.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * len(index) - 1)
    return np.asarray((index - low) / ((high - low) or 1e-3))


def _table(site: Site) -> tuple[tuple[str, str, Change, int], ...]:
    s, longest = _changed(site.config), site.case.config.max_position_embeddings
    fast, slow, length, factor = s.beta_fast, s.beta_slow, s.original_max_position_embeddings, s.factor
    ratio = longest / length
    rounds = "does not round the ramp's ends" if s.truncate else "rounds the ramp's ends, though truncate is false,"
    return (
        ("ignored", "leaves every frequency plain: rope_scaling is not used", _with(factor=1.0), 0),
        ("all_divided", "divides every frequency by the factor (linear interpolation, no ramp)", _by_ramp(lambda i, c: i >= 0), 0),
        ("betas", "has beta_fast and beta_slow exchanged", _with(beta_fast=slow, beta_slow=fast), 0),
        ("betas", "takes beta_fast 32 and beta_slow 1, not the stated ones", _with(beta_fast=32, beta_slow=1), 0),
        ("betas", "takes beta_fast 32, not the stated one", _with(beta_fast=32), 1),
        ("betas", "takes beta_slow 1, not the stated one", _with(beta_slow=1), 1),
        ("inverted", "has the ramp turned round: it divides fast pairs and keeps slow ones", _by_ramp(lambda i, c: 1 - np.clip(_ramp(i, c), 0, 1)), 0),
        ("truncate", f"{rounds} to whole pairs", _with(truncate=not s.truncate), 0),
        ("factor", f"divides by max_position_embeddings / original_max_position_embeddings = {ratio:g}, not by the factor {factor:g}", _with(factor=ratio), 0),
        ("factor", "divides by the square of the factor", _with(factor=factor**2), 0),
        ("factor", "divides by the root of the factor", _with(factor=factor**0.5), 0),
        ("factor", "multiplies by the factor where it should divide", _with(factor=1 / factor), 0),
        *(("original_length", f"counts turns over {name}, not over original_max_position_embeddings = {length}", _with(original_max_position_embeddings=n), rank)
          for name, n, rank in (("max_position_embeddings", longest, 0), ("factor × the original length", factor * length, 0),
                                ("max_position_embeddings / factor", longest / factor, 0), *((f"{n}", n, 1) for n in _LENGTHS))),
        *(("logarithm", f"finds the ramp's ends with {name} of the turns over ln(rope_theta)", _by_ramp(partial(_other_logarithm, base)), 0)
          for name, base in (("log10", 10.0), ("log2", 2.0))),
        *(("ends", f"finds the ramp's ends with theta {theta:g}", _by_ramp(partial(_ramp, theta=theta)), 1) for theta in (1e4, 1e6)),
        ("ends", "counts turns in radians: 2 π is missing", _with(beta_fast=fast / (2 * math.pi), beta_slow=slow / (2 * math.pi)), 0),
        ("ends", "takes channels for pairs: the ramp's ends are twice as far", _by_ramp(partial(_ramp, scale=2.0)), 0),
        ("ends", "takes channels for pairs: the ramp's ends are half as far", _by_ramp(partial(_ramp, scale=0.5)), 0),
        ("ends", "goes over linearly in the turns, not in the pair's index", _by_ramp(_by_turns), 0),
        ("ends", "has a step at the first end, no ramp", _by_ramp(lambda i, c: _ramp(i, c) > 0), 1),
        ("ends", "has a step at the last end, no ramp", _by_ramp(lambda i, c: _ramp(i, c) >= 1), 1),
    )  # fmt: skip


def rules(site: Site, right: Array) -> Iterator[Rule]:
    """Every rule that gives another table than `right[pair]`; none where RoPE is plain."""
    if site.config.rope_scaling is None:
        return
    for name, says, change, rank in _table(site):
        if not np.allclose(change(right, site.config), right, rtol=1e-9, atol=0):
            yield Rule(f"yarn.{name}", says, change, rank, FIX)


def factors(site: Site) -> Iterator[tuple[str, float]]:
    """Wrong factors on cos and sin, each with what completes "this op …"; none where RoPE is plain."""
    if site.config.rope_scaling is None:
        return
    s = _changed(site.config)
    right, longest = s.attention_factor, site.case.config.max_position_embeddings
    computed = 0.1 * math.log(s.factor) + 1
    found = (
        ("leaves the attention factor out", 1.0),
        (f"is multiplied by 0.1 ln(factor) + 1 = {computed:.7g}, not by the attention factor {right:.7g}", computed),
        ("is multiplied by the attention factor twice", right * right),
        (f"is multiplied by the attention factor and by 0.1 ln(factor) + 1 = {computed:.7g} too", right * computed),
        ("is divided by the attention factor", 1 / right),
        ("is multiplied by the root of the attention factor", right**0.5),
        ("takes log10 for the natural logarithm in the attention factor", 0.1 * math.log10(s.factor) + 1),
        ("takes log2 for the natural logarithm in the attention factor", 0.1 * math.log2(s.factor) + 1),
        ("is multiplied by 0.1 ln(factor): 1 is missing", computed - 1),
        ("is multiplied by ln(factor) + 1: 0.1 is missing", math.log(s.factor) + 1),
        ("is multiplied by 0.1 ln(max_position_embeddings / original_max_position_embeddings) + 1",
         0.1 * math.log(longest / s.original_max_position_embeddings) + 1 if longest else 1.0),
        ("is multiplied by the factor itself", s.factor),
    )  # fmt: skip
    for says, factor in found:
        if not math.isclose(factor, right, rel_tol=1e-9):
            yield says, factor
