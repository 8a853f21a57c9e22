"""Wrong stretching of RoPE as Llama 3.1 has it: other bands, another ramp between them."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

import math

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.ramps import Row, by_ramp, changed, common, turns, with_numbers
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_spec import RopeScaling, SpecConfig
from qwen3_spec.rope_scaling import yarn_ramp

FIX = (
    "keep a pair that turns high_freq_factor times over original_max_position_embeddings, divide by factor one that "
    "turns low_freq_factor times, go over linearly in the turns between them"
)


def _share(index: Array, c: SpecConfig) -> Array:
    """The right ramp: 0 = kept, 1 = divided."""
    s = changed(c)
    return np.clip((s.high_freq_factor - turns(index, c)) / (s.high_freq_factor - s.low_freq_factor), 0, 1)


def _between(index: Array, c: SpecConfig) -> Array:
    return (_share(index, c) > 0) & (_share(index, c) < 1)


def _by_wavelength(index: Array, c: SpecConfig) -> Array:
    s = changed(c)
    shortest, longest = 1 / s.high_freq_factor, 1 / s.low_freq_factor
    return np.asarray((1 / turns(index, c) - shortest) / (longest - shortest))


def _by_index(index: Array, c: SpecConfig) -> Array:
    s = changed(c)
    ends = (s.original_max_position_embeddings / (2 * math.pi * n) for n in (s.high_freq_factor, s.low_freq_factor))
    first, last = (len(index) * math.log(end) / math.log(c.rope_theta) for end in ends)
    return np.asarray((index - first) / (last - first))


def _yarn(index: Array, c: SpecConfig) -> Array:
    s = changed(c)
    yarn = RopeScaling("yarn", s.factor, s.original_max_position_embeddings)
    return yarn_ramp(index, c.rope_theta, yarn)


def table(config: SpecConfig, longest: int) -> tuple[Row, ...]:
    """Wrong frequencies where RoPE is stretched as in Llama 3.1; `longest` is max_position_embeddings."""
    s = changed(config)
    low, high = s.low_freq_factor, s.high_freq_factor
    return (
        *common(longest, s),
        *(("factor", f"divides by {k}, not by the stated factor {s.factor:g}", with_numbers(factor=k), PLAIN + 1) for k in (8, 32)),
        ("bands", f"keeps pairs from {high:g} turns on and divides all others: a step at high_freq_factor, no ramp", by_ramp(lambda i, c: _share(i, c) > 0), PLAIN),
        ("bands", f"divides pairs up to {low:g} turns and keeps all others: a step at low_freq_factor, no ramp", by_ramp(lambda i, c: _share(i, c) >= 1), PLAIN),
        ("bands", "takes low_freq_factor 1 and high_freq_factor 4, not the stated ones", with_numbers(low_freq_factor=1, high_freq_factor=4), PLAIN),
        ("bands", "takes low_freq_factor 1, not the stated one", with_numbers(low_freq_factor=1), PLAIN + 1),
        ("bands", "takes high_freq_factor 4, not the stated one", with_numbers(high_freq_factor=4), PLAIN + 1),
        ("bands", "counts turns in radians: 2 π is missing", with_numbers(low_freq_factor=low / (2 * math.pi), high_freq_factor=high / (2 * math.pi)), PLAIN),
        ("inverted", "divides fast pairs and keeps slow ones", by_ramp(lambda i, c: 1 - _share(i, c)), PLAIN),
        ("inverted", "has the ramp between the bands turned round", by_ramp(lambda i, c: np.where(_between(i, c), 1 - _share(i, c), _share(i, c))), PLAIN),
        ("ramp", "goes over linearly in the wavelength, not in the turns", by_ramp(_by_wavelength), PLAIN),
        ("ramp", "goes over linearly in the pair's index, as YaRN does, not in the turns", by_ramp(_by_index), PLAIN),
        ("ramp", "takes the middle of both frequencies between the bands", by_ramp(lambda i, c: np.where(_between(i, c), 0.5, _share(i, c))), PLAIN + 1),
        ("yarn", "stretches as YaRN does (beta_fast 32, beta_slow 1)", by_ramp(_yarn), PLAIN),
    )  # fmt: skip
