"""Numbers that a factor may be, in the words of a configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from qwen3_parity.mistakes.rounding import bfloat16, float16
from qwen3_spec import SpecConfig


def scalings(config: SpecConfig) -> Iterator[tuple[str, float]]:
    """What scores are wrongly multiplied with, in the order of how likely it is."""
    dim, hidden, heads = config.head_dim, config.hidden_size, config.num_attention_heads
    scaling = dim**-0.5
    yield "1: no scaling at all (or one that a norm cancels)", 1.0
    yield "hidden_size ** -0.5", hidden**-0.5
    yield "(hidden_size / heads) ** -0.5", (hidden / heads) ** -0.5
    yield "head_dim ** -1: the scaling twice", scaling * scaling
    yield "1 / head_dim", 1 / dim
    yield "head_dim ** 0.5", dim**0.5
    yield "head_dim ** -0.25: the root twice", dim**-0.25
    yield "(heads * head_dim) ** -0.5", (heads * dim) ** -0.5
    yield "(head_dim / 2) ** -0.5", (dim / 2) ** -0.5
    yield "heads ** -0.5", heads**-0.5
    yield "kv_heads ** -0.5", float(config.num_key_value_heads**-0.5)
    yield "(kv_heads * head_dim) ** -0.5", float((config.num_key_value_heads * dim) ** -0.5)
    for block in (8, 16, 32, 64, 128, 256):
        padded = -(-dim // block) * block
        if padded != dim:
            yield f"{padded} ** -0.5: head_dim padded to a multiple of {block}", padded**-0.5
    yield "head_dim ** -0.5 / ln 2: made for exp2", scaling / math.log(2)
    yield "head_dim ** -0.5 * ln 2", scaling * math.log(2)
    yield "head_dim ** -0.5 in bfloat16", float(bfloat16(np.array([scaling]))[0])
    yield "head_dim ** -0.5 in float16", float(float16(np.array([scaling]))[0])
    yield "head_dim ** -0.5 rounded to 4 digits", round(scaling, 4)
    yield "head_dim ** -0.5 rounded to 3 digits", round(scaling, 3)
    for dims in (64, 128, 256):
        yield f"{dims} ** -0.5: a fixed head_dim", dims**-0.5


def named(factor: float, config: SpecConfig, *, tolerance: float = 1e-5) -> str:
    """A factor in words: a small rational times powers of the network's sizes; empty when none is that close."""
    return named_by(factor, vars(config), tolerance=tolerance)


def named_by(factor: float, config: Mapping[str, Any], *, tolerance: float = 1e-5) -> str:
    """As `named`, of a network whose config.json has these numbers."""
    sign, size = ("-" if factor < 0 else ""), abs(factor)
    for words, value in _words(_sizes(config)):
        if _close(size, value, tolerance):
            return sign + words
    return ""


_NUMBERS = {
    "1": 1,
    "2": 2,
    "3": 3,
    "4": 4,
    "10": 10,
    "π": math.pi,
    "√2": 2**0.5,
    "ln 2": math.log(2),
    "√π": math.pi**0.5,
}
_KEYS = {
    "head_dim": "head_dim",
    "hidden_size": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "groups": "",
    "intermediate_size": "intermediate_size",
    "layers": "num_hidden_layers",
}
"""The sizes that a factor is made of, by the keys of a configuration."""
_WIDTHS = ("d_model", "n_embd")
"""What older configurations call the width."""


def _sizes(config: Mapping[str, Any]) -> dict[str, int]:
    known = {name: config.get(key) for name, key in _KEYS.items()}
    known |= {key: config[key] for key in _WIDTHS if key in config and known["hidden_size"] is None}
    heads, kv_heads = known["heads"], known["kv_heads"]
    if isinstance(heads, int) and isinstance(kv_heads, int) and kv_heads > 0:
        known["groups"] = heads // kv_heads
    return {name: value for name, value in known.items() if isinstance(value, int) and value > 0}


def _words(sizes: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    """What a factor may be, the plainest first: a number, a power of a size, the ratio of two or its root."""
    for text, number in _NUMBERS.items():
        yield text, number
        yield f"1 / {text}", 1 / number
    for name, size in sizes.items():
        for power in (1, -1, 0.5, -0.5, 2, -2, 0.25, -0.25) if size > 1 else ():
            yield name + _power(power), size**power
    for (name, size), (divisor_name, divisor) in product(sizes.items(), repeat=2):
        for power in (1, 0.5) if size != divisor else ():
            yield f"({name} / {divisor_name}){_power(power)}", (size / divisor) ** power


def _power(power: float) -> str:
    return f" ** {power}" if power != 1 else ""


def _close(actual: float, expected: float, tolerance: float) -> bool:
    return abs(actual - expected) <= tolerance * abs(expected)
