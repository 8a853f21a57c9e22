"""The angle per position of each channel pair of RoPE, plain or scaled by YaRN."""

import math

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.config import RopeScaling
from qwen3_spec.op import Op
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit, magnitude
from qwen3_spec.site import Site


def forward(
    head_dim: int, theta: float, scaling: RopeScaling | None = None, *, arithmetic: Arithmetic = FLOAT64
) -> Array:
    """Angle per position of each channel pair, `theta ** (-2 i / head_dim)` -> `[head_dim / 2]`.

    With `scaling` the pairs on the ramp's far side are divided by its factor, those on the ramp in part.

    Source: Su et al. 2021 (RoFormer), `Qwen3RotaryEmbedding.compute_default_rope_parameters`. HF computes it in float32
    whatever the model's dtype; in bfloat16 a frequency would be off by up to 2^-9 of itself, the angle at position 4095
    by radians. HF's float32 table is the reference: a run is given cos and sin made from it.
    """
    exponent = arithmetic.cast(np.arange(0, head_dim, 2)) / head_dim
    plain = np.asarray(1 / arithmetic.dtype(theta) ** exponent)
    if scaling is None:
        return plain
    ramp = yarn_ramp(head_dim, theta, scaling, arithmetic=arithmetic)
    return np.asarray(plain * (1 - ramp) + plain / arithmetic.dtype(scaling.factor) * ramp)


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


def yarn_ramp(head_dim: int, theta: float, scaling: RopeScaling, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """How much of the factor each pair is divided by, `[head_dim / 2]`: 0 nothing, 1 all of it, linear in i between.

    The paper's own ramp is linear in the turns; HF's, and its authors' code, in the pair's index. Both agree outside
    of the ramp.
    """
    low, high = yarn_range(head_dim, theta, scaling)
    steps = arithmetic.cast(np.arange(head_dim // 2)) - arithmetic.dtype(low)
    return np.asarray(np.clip(steps / arithmetic.dtype(high - low), 0, 1))


def unit(
    y: Array, theta: float = 1.0, scaling: RopeScaling | None = None, *, roundoff: float = FLOAT32_ROUNDOFF
) -> Array:
    """`|y| (1 + |ln y|)`, `[pair]`: a power multiplies the exponent's rounding by the logarithm.

    With `scaling` (then `theta` is needed) the rounding of the ramp is added, `yarn_ramp_unit`.
    """
    scale = magnitude(y) * (1 + np.abs(np.log(FLOAT64.cast(y))))
    return as_unit(scale if scaling is None else scale + yarn_ramp_unit(2 * len(y), theta, scaling), roundoff)


def yarn_ramp_unit(head_dim: int, theta: float, scaling: RopeScaling) -> Array:
    """What the ramp's own rounding moves a frequency by, `[pair]`, in roundoffs: `plain (1 - 1 / factor)` times it.

    That is the ramp itself where its ends are whole numbers, which are exact; ends that are not are rounded, and i
    minus an end cancels: on the ramp `(low + high) / (high - low)`, which is never less.
    """
    ramp = yarn_ramp(head_dim, theta, scaling)
    low, high = yarn_range(head_dim, theta, scaling)
    rounded = ramp if scaling.truncate else np.where((ramp > 0) & (ramp < 1), (low + high) / (high - low), ramp)
    return np.asarray(forward(head_dim, theta) * (1 - 1 / scaling.factor) * rounded)


def at_site(site: Site, arithmetic: Arithmetic) -> Array:
    """The frequencies of the case's configuration."""
    return forward(site.config.head_dim, site.config.rope_theta, site.config.rope_scaling, arithmetic=arithmetic)


def _unit_at_site(site: Site, y: Array) -> Array:
    own = unit(y, site.config.rope_theta, site.config.rope_scaling)
    if site.values.recorded(site.place.name, site.step) is None:
        return np.asarray(np.maximum(own, 2 * np.spacing(y.astype(np.float32))))  # how far libraries are apart
    return own


OPS = (Op("inv_freq", at_site, _unit_at_site),)
