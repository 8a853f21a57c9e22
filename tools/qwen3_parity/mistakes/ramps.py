"""What any stretching of RoPE goes wrong by: other numbers, another ramp."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.frequencies import Change
from qwen3_parity.mistakes.ranks import PLAIN, Rank
from qwen3_spec import RopeScaling, SpecConfig, ops

LENGTHS = (2048, 4096, 8192, 16384, 32768, 40960, 65536, 131072)
"""Positions that published models were pretrained on."""

Row = tuple[str, str, Change, Rank]
"""A wrong table of frequencies: name, what completes "this op …", change, rank."""


class _Wrong(RopeScaling):
    """Numbers that no configuration could have."""

    def __post_init__(self) -> None:
        """Refuse nothing."""


def changed(config: SpecConfig, **numbers: float) -> RopeScaling:
    """The configuration's scaling with other numbers, possible or not."""
    assert config.rope_scaling is not None
    return _Wrong(**{**asdict(config.rope_scaling), **numbers})


def with_numbers(**numbers: float) -> Change:
    """Frequencies with other numbers of the scaling."""
    return lambda f, c: ops.inv_freq.forward(2 * len(f), c.rope_theta, changed(c, **numbers))


def by_ramp(ramp: Callable[[Array, SpecConfig], Array]) -> Change:
    """Frequencies with `ramp(indices of the pairs, config)`: 0 = kept, 1 = divided."""

    def frequencies(f: Array, c: SpecConfig) -> Array:
        share = np.clip(ramp(np.arange(len(f), dtype=np.float64), c), 0, 1)
        plain = ops.inv_freq.forward(2 * len(f), c.rope_theta)
        return np.asarray(plain * (1 - share) + plain / changed(c).factor * share)

    return frequencies


def turns(index: Array, config: SpecConfig) -> Array:
    """How often each pair turns over the original length, `[pair]`."""
    plain = ops.inv_freq.forward(2 * len(index), config.rope_theta)
    return np.asarray(changed(config).original_max_position_embeddings * plain / (2 * np.pi))


def common(longest: int, scaling: RopeScaling) -> tuple[Row, ...]:
    """What every kind goes wrong by; `longest` is max_position_embeddings."""
    length, factor = scaling.original_max_position_embeddings, scaling.factor
    ratio = longest / length
    return (
        ("ignored", "leaves every frequency plain: rope_scaling is not used", with_numbers(factor=1.0), PLAIN),
        ("all_divided", "divides every frequency by the factor (linear interpolation, no ramp)", by_ramp(lambda i, c: i >= 0), PLAIN),
        ("factor", f"divides by max_position_embeddings / original_max_position_embeddings = {ratio:g}, not by the factor {factor:g}", with_numbers(factor=ratio), PLAIN),
        *(("factor", f"divides by {words} the factor, {by * factor:g}, not by {factor:g}", with_numbers(factor=by * factor), PLAIN) for by, words in ((2, "twice"), (0.5, "half"))),
        ("factor", "divides by the square of the factor", with_numbers(factor=factor**2), PLAIN),
        ("factor", "divides by the root of the factor", with_numbers(factor=factor**0.5), PLAIN),
        ("factor", "multiplies by the factor where it should divide", with_numbers(factor=1 / factor), PLAIN),
        *(("original_length", f"counts turns over {name}, not over original_max_position_embeddings = {length}", with_numbers(original_max_position_embeddings=n), rank)
          for name, n, rank in (("max_position_embeddings", longest, PLAIN), ("factor × the original length", factor * length, PLAIN),
                                ("max_position_embeddings / factor", longest / factor, PLAIN), *((f"{n}", n, PLAIN + 1) for n in LENGTHS))),
    )  # fmt: skip
