"""The rotation of queries and keys by cos and sin."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.heads import heads_first
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit, magnitude
from qwen3_spec.site import Site


def rotate_half(x: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`[a, b] -> [-b, a]` with a, b the halves of the last axis; exact. Source: HF `rotate_half`. No cast."""
    x = arithmetic.cast(x)
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


def rotate_half_unit(x: Array) -> Array:
    """Zero, the shape of `x`: halves are moved and negated."""
    return np.zeros(x.shape)


def forward(x: Array, cos: Array, sin: Array, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged) -> Array:
    """`x * cos + rotate_half(x) * sin`; `x[batch, heads, seq, head_dim]`, `cos, sin[batch, seq, head_dim]`.

    Source: HF `apply_rotary_pos_emb` for one of q and k. No cast.
    """
    x = at("input", arithmetic.cast(x))
    cos, sin = (at("cos and sin", arithmetic.cast(table))[:, None] for table in (cos, sin))
    turned = rotate_half(x, arithmetic=arithmetic)
    return np.asarray(at("output", at("products", x * cos) + at("products", turned * sin)))


def unit(x: Array, cos: Array, sin: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|x cos| + |rotate_half(x) sin|`, the shape of `x`."""
    cos, sin = magnitude(cos)[:, None], magnitude(sin)[:, None]
    return as_unit(magnitude(x) * cos + magnitude(rotate_half(x)) * sin, roundoff)


def backward(dy: Array, cos: Array, sin: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """By x: the rotation backwards, `dy * cos - rotate_half(dy * sin)`; `dy[batch, heads, seq, head_dim]`.

    The transpose of `rotate_half` is its negative. cos and sin are constants.
    """
    dy, cos, sin = arithmetic.cast(dy), arithmetic.cast(cos)[:, None], arithmetic.cast(sin)[:, None]
    return np.asarray(dy * cos - rotate_half(dy * sin, arithmetic=arithmetic))


def _operands(site: Site) -> tuple[Array, Array, Array]:
    x, cos, sin = site.inputs
    return heads_first(x, site.config.head_dim), cos, sin


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """A place's queries or keys, heads first, rotated."""
    return forward(*_operands(site), arithmetic=arithmetic, at=at)


def _unit_at_site(site: Site, _y: Array) -> Array:
    return unit(*_operands(site))


STEPS = (
    "input",
    "cos and sin",
    "products",
    "output",
)

OPS = (Op("rope", at_site, _unit_at_site, steps=STEPS, stored=("products",), added_products=True),)
