"""The angle per position of each channel pair of RoPE, plain or stretched."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.rope_scaling import KINDS, RopeScaling
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit, magnitude
from qwen3_spec.site import Site


def forward(
    head_dim: int, theta: float, scaling: RopeScaling | None = None, *, arithmetic: Arithmetic = FLOAT64
) -> Array:
    """Angle per position of each channel pair, `theta ** (-2 i / head_dim)` -> `[head_dim / 2]`.

    With `scaling` pairs are divided by its factor, as far as its ramp says.

    Source: Su et al. 2021 (RoFormer), `Qwen3RotaryEmbedding.compute_default_rope_parameters`. HF computes it in float32
    whatever the model's dtype; in bfloat16 a frequency would be off by up to 2^-9 of itself, the angle at position 4095
    by radians. HF's float32 table is the reference: a run is given cos and sin made from it.
    """
    exponent = arithmetic.cast(np.arange(0, head_dim, 2)) / head_dim
    plain = np.asarray(1 / arithmetic.dtype(theta) ** exponent)
    if scaling is None:
        return plain
    ramp = KINDS[scaling.rope_type].ramp(plain, theta, scaling, arithmetic=arithmetic)
    return np.asarray(plain * (1 - ramp) + plain / arithmetic.dtype(scaling.factor) * ramp)


def unit(
    y: Array, theta: float = 1.0, scaling: RopeScaling | None = None, *, roundoff: float = FLOAT32_ROUNDOFF
) -> Array:
    """`|y| (1 + |ln y|)`, `[pair]`: a power multiplies the exponent's rounding by the logarithm.

    With `scaling` (then `theta` is needed) the rounding of the ramp is added, `ramp_unit`.
    """
    scale = magnitude(y) * (1 + np.abs(np.log(FLOAT64.cast(y))))
    return as_unit(scale if scaling is None else scale + ramp_unit(2 * len(y), theta, scaling), roundoff)


def ramp_unit(head_dim: int, theta: float, scaling: RopeScaling) -> Array:
    """What the ramp's own rounding moves a frequency by, `[pair]`, in roundoffs: `plain (1 - 1 / factor)` times it."""
    plain = forward(head_dim, theta)
    return np.asarray(plain * (1 - 1 / scaling.factor) * KINDS[scaling.rope_type].unit(plain, theta, scaling))


def at_site(site: Site, arithmetic: Arithmetic) -> Array:
    """The frequencies of the case's configuration."""
    return forward(site.config.head_dim, site.config.rope_theta, site.config.rope_scaling, arithmetic=arithmetic)


def _unit_at_site(site: Site, y: Array) -> Array:
    rounding = unit(y, site.config.rope_theta, site.config.rope_scaling)
    if site.values.recorded(site.place.name, site.step) is None:
        return np.asarray(np.maximum(rounding, 2 * np.spacing(y.astype(np.float32))))  # how far libraries are apart
    return rounding


OPS = (Op("inv_freq", at_site, _unit_at_site),)
