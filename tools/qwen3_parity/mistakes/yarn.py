"""Wrong stretching of RoPE by YaRN: other frequencies, and other factors on cos and sin, as rules."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.ramps import Row, by_ramp, changed, common, turns, with_numbers
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_spec import SpecConfig
from qwen3_spec.rope_scaling import yarn_range

FACTOR = "yarn.attention_factor"
FIX = (
    "keep a pair that turns beta_fast times over original_max_position_embeddings, divide by factor one that turns "
    "beta_slow times, go over linearly in the pair's index between them (whole pairs where truncate says so)"
)


def fix_factor(config: SpecConfig) -> str:
    """What is right of the factor on cos and sin, by the configuration."""
    if not applies(config):
        return "do not scale cos and sin"
    return (
        "multiply both cos and sin, and nothing else, once by rope_scaling's attention_factor, which is "
        f"{config.attention_factor:.7g} here: the stated number, else 0.1 mscale ln(factor) + 1 over the same with "
        "mscale_all_dim where both are stated, else 0.1 ln(factor) + 1"
    )


def applies(config: SpecConfig) -> bool:
    """Whether RoPE is stretched by YaRN, so that cos and sin have a factor."""
    return config.rope_scaling is not None and config.rope_scaling.rope_type == "yarn"


def _ramp(index: Array, c: SpecConfig, scale: float = 1.0, theta: float = 0.0) -> Array:
    """The ramp at `index`, its ends `scale` times as far, or found with another `theta`."""
    s = changed(c)
    low, high = yarn_range(2 * len(index), theta or c.rope_theta, s)
    return np.asarray((index - low * scale) / ((high - low) * scale))


def _by_turns(index: Array, c: SpecConfig) -> Array:
    s = changed(c)
    return np.asarray((s.beta_fast - turns(index, c)) / (s.beta_fast - s.beta_slow))


def _other_logarithm(base: float, index: Array, c: SpecConfig) -> Array:
    """Ends whose numerator has a logarithm of another base than their denominator."""
    s = changed(c)
    ends = (s.original_max_position_embeddings / (beta * 2 * math.pi) for beta in (s.beta_fast, s.beta_slow))
    low, high = (len(index) * math.log(end, base) / math.log(c.rope_theta) for end in ends)
    if s.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * len(index) - 1)
    return np.asarray((index - low) / ((high - low) or 1e-3))


def table(config: SpecConfig, longest: int) -> tuple[Row, ...]:
    """Wrong frequencies where RoPE is stretched by YaRN; `longest` is max_position_embeddings."""
    s = changed(config)
    fast, slow = s.beta_fast, s.beta_slow
    rounds = "does not round the ramp's ends" if s.truncate else "rounds the ramp's ends, though truncate is false,"
    return (
        *common(longest, s),
        ("betas", "has beta_fast and beta_slow exchanged", with_numbers(beta_fast=slow, beta_slow=fast), PLAIN),
        ("betas", "takes beta_fast 32 and beta_slow 1, not the stated ones", with_numbers(beta_fast=32, beta_slow=1), PLAIN),
        ("betas", "takes beta_fast 32, not the stated one", with_numbers(beta_fast=32), PLAIN + 1),
        ("betas", "takes beta_slow 1, not the stated one", with_numbers(beta_slow=1), PLAIN + 1),
        ("inverted", "has the ramp turned round: it divides fast pairs and keeps slow ones", by_ramp(lambda i, c: 1 - np.clip(_ramp(i, c), 0, 1)), PLAIN),
        ("truncate", f"{rounds} to whole pairs", with_numbers(truncate=not s.truncate), PLAIN),
        *(("logarithm", f"finds the ramp's ends with {name} of the turns over ln(rope_theta)", by_ramp(partial(_other_logarithm, base)), PLAIN)
          for name, base in (("log10", 10.0), ("log2", 2.0))),
        *(("ends", f"finds the ramp's ends with theta {theta:g}", by_ramp(partial(_ramp, theta=theta)), PLAIN + 1) for theta in (1e4, 1e6)),
        ("ends", "counts turns in radians: 2 π is missing", with_numbers(beta_fast=fast / (2 * math.pi), beta_slow=slow / (2 * math.pi)), PLAIN),
        ("ends", "takes channels for pairs: the ramp's ends are twice as far", by_ramp(partial(_ramp, scale=2.0)), PLAIN),
        ("ends", "takes channels for pairs: the ramp's ends are half as far", by_ramp(partial(_ramp, scale=0.5)), PLAIN),
        ("ends", "goes over linearly in the turns, not in the pair's index", by_ramp(_by_turns), PLAIN),
        ("ends", "has a step at the first end, no ramp", by_ramp(lambda i, c: _ramp(i, c) > 0), PLAIN + 1),
        ("ends", "has a step at the last end, no ramp", by_ramp(lambda i, c: _ramp(i, c) >= 1), PLAIN + 1),
    )  # fmt: skip


def unread(config: SpecConfig, longest: int) -> Iterator[tuple[Row, str, float]]:
    """Numbers of the configuration that an engine does not read: wrong frequencies, and with them a wrong factor.

    Each with the factor's words, as in `factors`. One number alone is in `table` or in `factors`.
    """
    if not applies(config):
        return
    truncate, betas = with_numbers(truncate=True), with_numbers(beta_fast=32, beta_slow=1)
    s = changed(config)
    plain = 1.0, 0.1 * math.log(s.factor) + 1
    rows: list[Row] = [("ignored", "leaves every frequency plain", with_numbers(factor=1.0), PLAIN)]
    if not s.truncate:
        says = "rounds the ramp's ends to whole pairs, though truncate is false,"
        rows.append(("truncate", says, truncate, PLAIN + 1))
    if (s.beta_fast, s.beta_slow) != (32, 1):
        rows.append(("betas", "takes beta_fast 32 and beta_slow 1, not the stated ones,", betas, PLAIN + 1))
    for row in rows:
        yield from ((row, says, factor) for says, factor in factors(config, longest) if factor in plain)


def factors(config: SpecConfig, longest: int) -> Iterator[tuple[str, float]]:
    """Wrong factors on cos and sin, each with what completes "this op …"; none without YaRN."""
    if not applies(config):
        return
    s = changed(config)
    expected = s.attention_factor
    computed = 0.1 * math.log(s.factor) + 1
    wrong_factors = (
        ("leaves the attention factor out", 1.0),
        (f"is multiplied by 0.1 ln(factor) + 1 = {computed:.7g}, not by the attention factor {expected:.7g}", computed),
        ("is multiplied by the attention factor twice", expected * expected),
        (f"is multiplied by the attention factor and by 0.1 ln(factor) + 1 = {computed:.7g} too", expected * computed),
        ("is divided by the attention factor", 1 / expected),
        ("is multiplied by the root of the attention factor", expected**0.5),
        ("takes log10 for the natural logarithm in the attention factor", 0.1 * math.log10(s.factor) + 1),
        ("takes log2 for the natural logarithm in the attention factor", 0.1 * math.log2(s.factor) + 1),
        ("is multiplied by 0.1 ln(factor): 1 is missing", computed - 1),
        ("is multiplied by ln(factor) + 1: 0.1 is missing", math.log(s.factor) + 1),
        ("is multiplied by 0.1 ln(max_position_embeddings / original_max_position_embeddings) + 1",
         0.1 * math.log(longest / s.original_max_position_embeddings) + 1 if longest else 1.0),
        ("is multiplied by the factor itself", s.factor),
    )  # fmt: skip
    for says, factor in wrong_factors:
        if not math.isclose(factor, expected, rel_tol=1e-9):
            yield says, factor
