"""cos and sin of every position."""

from collections.abc import Iterator

import numpy as np

from qwen3_spec.angles import close_unit, honest_angles, nearest_table
from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.ops import inv_freq
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit, magnitude
from qwen3_spec.site import Result, Site


def forward(
    position_ids: Array,
    inv_freq: Array,
    attention_factor: float = 1.0,
    *,
    arithmetic: Arithmetic = FLOAT64,
    at: At = unchanged,
) -> tuple[Array, Array]:
    """cos and sin of `position * inv_freq`, the pairs twice in a row, each `[batch, seq, head_dim]`.

    Both are multiplied by YaRN's `attention_factor`: scores of queries and keys that are turned by them carry its
    square.

    `position_ids[batch, seq]`, `inv_freq[pair]`. Channel i and channel i + head_dim / 2 form a pair (half split, not
    neighbours). Source: `Qwen3RotaryEmbedding.forward`. HF forces float32 here, autocast off: in bfloat16 positions 256
    and 257 are one number and share every angle. In float32 the angle itself is rounded, by 1e-3 at position 32768.
    HF then casts cos and sin to the model's dtype: in half precision, without that, products of float32 tables would
    differ in most last bits.
    """
    positions, frequencies = (
        at("positions", arithmetic.cast(position_ids)),
        at("frequencies", arithmetic.cast(inv_freq)),
    )
    angle = at("angles", positions[..., None] * frequencies)
    angle = np.concatenate([angle, angle], axis=-1)
    factor = arithmetic.dtype(attention_factor)
    return np.asarray(at("output", np.cos(angle) * factor)), np.asarray(at("output", np.sin(angle) * factor))


def unit(
    position_ids: Array, inv_freq: Array, attention_factor: float = 1.0, *, roundoff: float = FLOAT32_ROUNDOFF
) -> Array:
    """`1 + |angle|`, `[batch, seq, head_dim]`, one unit for cos and sin: the angle's rounding counts in full.

    An `attention_factor` multiplies it, and adds two roundings, its own and the product's.
    """
    angle = magnitude(position_ids)[..., None] * magnitude(inv_freq)
    roundings = 1 if attention_factor == 1 else 3
    return as_unit(abs(attention_factor) * (roundings + np.concatenate([angle, angle], axis=-1)), roundoff)


def angles_of(site: Site) -> Iterator[Array]:
    """The honest angles of a cos or sin, by the positions and frequencies that it was made from."""
    positions, frequencies = site.inputs
    wide = inv_freq.forward(site.config.head_dim, site.config.rope_theta, site.config.rope_scaling)
    recorded = site.values.recorded(site.names[1], site.step) is not None
    return honest_angles(positions, frequencies, wide, recorded=recorded)


def _table(name: str, which: int) -> Op:
    def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
        positions, frequencies = site.inputs
        return forward(positions, frequencies, site.config.attention_factor, arithmetic=arithmetic, at=at)[which]

    def both(site: Site) -> Result:
        positions, frequencies = site.inputs
        factor, actual = site.config.attention_factor, site.values.recorded(site.place.name, site.step)
        if actual is None:
            return at_site(site, FLOAT64), unit(positions, frequencies, factor)
        y = nearest_table(actual, which, angles_of(site), factor)
        return y, close_unit(y.shape, factor)

    return Op(name, at_site, both=both, steps=("positions", "frequencies", "angles", "output"))


OPS = (_table("cos", 0), _table("sin", 1))
