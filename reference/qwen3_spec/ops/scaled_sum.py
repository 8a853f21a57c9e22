"""Token embeddings, scaled, plus learned positions."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.classic_config import classic_config
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, SMALLEST_NORMAL
from qwen3_spec.site import Site


def forward(
    tokens: Array, positions: Array, scale: float, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged
) -> Array:
    """`tokens * scale + positions`, equal shapes `[batch, seq, hidden]`; scale is 1 or the root of hidden.

    Source: Vaswani et al. 2017, section 3.4.
    """
    scaled = at("scaled tokens", at("tokens", arithmetic.cast(tokens)) * arithmetic.dtype(scale))
    return np.asarray(at("output", scaled + at("positions", arithmetic.cast(positions))))


def unit(tokens: Array, positions: Array, scale: float, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`2 |tokens scale| + |positions|`: the scale, the product and the sum are rounded; a scale of 1 is not."""
    first = np.abs(FLOAT64.cast(tokens) * scale) * (1 if scale == 1 else 2)
    return np.asarray(roundoff * (first + np.abs(FLOAT64.cast(positions))) + SMALLEST_NORMAL)


def _operands(site: Site) -> tuple[Array, Array, float]:
    tokens, positions = site.inputs
    return tokens, positions, classic_config(site).embedding_scale


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """The sum of a place's two inputs, the first one scaled."""
    return forward(*_operands(site), arithmetic=arithmetic, at=at)


def _unit_at_site(site: Site, _y: Array) -> Array:
    return unit(*_operands(site))


STEPS = (
    "tokens",
    "scaled tokens",
    "positions",
    "output",
)

OPS = (Op("scaled_sum", at_site, _unit_at_site, steps=STEPS),)
