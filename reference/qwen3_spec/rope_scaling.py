"""How RoPE is stretched beyond the positions of the pretraining: which pairs of channels turn slower, and by how much.

Every kind divides a pair's frequency by `factor` by way of a ramp, 0 for a pair that keeps its frequency and 1 for one
that is divided: `plain (1 - ramp) + plain / factor * ramp`. A kind is its numbers, its ramp, and the ramp's rounding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array


@dataclass(frozen=True)
class RopeScaling:
    """The numbers of a stretched RoPE, every one resolved; those that its `rope_type` does not have stay as they are.

    The context is `factor` times `original_max_position_embeddings`; cos and sin are multiplied by `attention_factor`.
    YaRN (Peng et al. 2023): a pair of channels that turns `beta_fast` times or more over the original length keeps its
    frequency, one that turns `beta_slow` times or less is divided by `factor`, between them the ramp is linear in the
    pair's index; `truncate` widens it to whole pairs. Llama 3.1: one that turns `high_freq_factor` times or more keeps
    its frequency, one that turns `low_freq_factor` times or less is divided, between them the ramp is linear in the
    turns. Raises `ValueError` naming the field when a number is impossible.
    """

    rope_type: str
    factor: float
    original_max_position_embeddings: int
    attention_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def __post_init__(self) -> None:
        """Refuse what stretches nothing."""
        if self.rope_type not in KINDS:
            raise ValueError(f"rope_type {self.rope_type!r} is not one of {tuple(KINDS)}")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise ValueError(f"factor {self.factor} is not a number of at least 1")
        for name, value in self.numbers().items():
            if not isinstance(value, bool) and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} {value} is not a positive number")
        kind = KINDS[self.rope_type]
        more, less = (getattr(self, name) for name in kind.ends)
        if more < less or (more == less and not kind.may_step):
            words = "is less than" if more < less else "is no more than"
            raise ValueError(f"{kind.ends[0]} {more} {words} {kind.ends[1]} {less}")

    def numbers(self) -> dict[str, float]:
        """The numbers that its kind has, by name."""
        return {name: getattr(self, name) for name in KINDS[self.rope_type].names}


def yarn_range(head_dim: int, theta: float, scaling: RopeScaling) -> tuple[float, float]:
    """The pairs `(low, high)` between which YaRN goes over from plain frequencies to divided ones.

    Pair i turns `length theta ** (-2 i / head_dim) / (2 pi)` times over the original length: solved for i at
    `beta_fast` and `beta_slow` turns. `truncate` takes the whole numbers around the two, and both stay within 0 and
    head_dim - 1 (not head_dim / 2 - 1, Hugging Face has it so). Source: Peng et al. 2023 (YaRN), section 3.2.
    """

    def pair(turns: float) -> float:
        length = scaling.original_max_position_embeddings
        return head_dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair(scaling.beta_fast), pair(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    return low, high + 0.001 if low == high else high


def yarn_ramp(plain: Array, theta: float, scaling: RopeScaling, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """YaRN's ramp `[pair]`, linear in the pair's index.

    The paper's own ramp is linear in the turns; HF's, and its authors' code, in the pair's index. Both agree outside
    of the ramp.
    """
    low, high = yarn_range(2 * len(plain), theta, scaling)
    steps = arithmetic.cast(np.arange(len(plain))) - arithmetic.dtype(low)
    return np.asarray(np.clip(steps / arithmetic.dtype(high - low), 0, 1))


def _yarn_unit(plain: Array, theta: float, scaling: RopeScaling) -> Array:
    """The ramp itself where its ends are whole numbers, which are exact; ends that are not are rounded.

    i minus an end then cancels: on the ramp `(low + high) / (high - low)`, which is never less.
    """
    ramp = yarn_ramp(plain, theta, scaling)
    low, high = yarn_range(2 * len(plain), theta, scaling)
    return ramp if scaling.truncate else np.where((ramp > 0) & (ramp < 1), (low + high) / (high - low), ramp)


def llama3_ramp(plain: Array, theta: float, scaling: RopeScaling, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """Llama 3.1's ramp `[pair]`, linear in how often a pair turns over the original length.

    Source: `_compute_llama3_parameters` of Hugging Face's modeling_rope_utils, after Meta's `apply_scaling`. With equal
    ends it would be a step; HF divides by their difference, so they differ.
    """
    turns = arithmetic.dtype(scaling.original_max_position_embeddings / (2 * math.pi)) * plain
    low, high = arithmetic.dtype(scaling.low_freq_factor), arithmetic.dtype(scaling.high_freq_factor)
    return np.asarray(1 - np.clip((turns - low) / (high - low), 0, 1))


def _llama3_unit(plain: Array, theta: float, scaling: RopeScaling) -> Array:
    """On the ramp, the turns over the ramp's length: their own rounding and that of the power they are made from."""
    ramp = llama3_ramp(plain, theta, scaling)
    turns = scaling.original_max_position_embeddings * plain / (2 * math.pi)
    noise = turns * (2 + np.abs(np.log(plain))) / (scaling.high_freq_factor - scaling.low_freq_factor)
    return np.where((ramp > 0) & (ramp < 1), noise, 0)


class Kind(NamedTuple):
    """A `rope_type`: the names of its numbers, and of the two that say where its ramp ends (`ends`: more, then less).

    `ramp(plain, theta, scaling, arithmetic=)` takes plain frequencies `[pair]`; `unit(plain, theta, scaling)` is how
    far one rounding moves the ramp, `[pair]`, in roundoffs. `may_step`: whether both ends may be one.
    """

    names: tuple[str, ...]
    ends: tuple[str, str]
    ramp: Callable[..., Array]
    unit: Callable[[Array, float, RopeScaling], Array]
    may_step: bool


_COMMON = ("factor", "original_max_position_embeddings", "attention_factor")

KINDS = {
    "yarn": Kind(
        (*_COMMON, "beta_fast", "beta_slow", "truncate"),
        ("beta_fast", "beta_slow"),
        yarn_ramp,
        _yarn_unit,
        may_step=True,
    ),
    "llama3": Kind(
        (*_COMMON, "low_freq_factor", "high_freq_factor"),
        ("high_freq_factor", "low_freq_factor"),
        llama3_ramp,
        _llama3_unit,
        may_step=False,
    ),
}
"""By rope_type."""
