"""How far honest float32 moves RoPE's frequencies, cos and sin: what their floors are made of."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array, pb
from qwen3_spec import RopeScaling, ops

_ONE_ULP, _HALF_ULP = 2.0**-23, 2.0**-24
_STORED: dict[int, float] = {pb.BF16: 2.0**-8, pb.F16: 2.0**-11}


def frequency_rounding(head_dim: int, theta: float, scaling: RopeScaling | None) -> Array:
    """One ulp of each frequency, relative, `[pair]`: they span decades, and the powers of libraries differ by ulps.

    Where RoPE is stretched, the rounding of the ramp comes to it.
    """
    plain = np.full(head_dim // 2, _ONE_ULP)
    if scaling is None:
        return plain
    ramp = ops.inv_freq.ramp_unit(head_dim, theta, scaling) / ops.inv_freq.forward(head_dim, theta, scaling)
    return np.asarray(plain + _HALF_ULP * ramp)


def table_rounding(positions: Array, inv_freq: Array, attention_factor: float, dtype: int) -> Array:
    """cos and sin `[batch, seq, head_dim]`: the angle is rounded once, and so is the result: 2^-24 · (1 + |angle|).

    An attention factor multiplies all of it; it is rounded itself, and so is its product: two roundings more.
    """
    angle = np.abs(positions[..., None].astype(np.float64) * inv_freq.astype(np.float64))
    roundings = 1 if attention_factor == 1 else 3
    unit = _HALF_ULP * (roundings + np.concatenate([angle, angle], axis=-1))
    return np.asarray(attention_factor * (unit + _STORED.get(dtype, 0.0)))
