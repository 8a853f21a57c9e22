"""The activation of the classic encoder: no gate."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.ops import swiglu
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Site


def forward(x: Array, hidden_act: str, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged) -> Array:
    """`act(x)`, the input of linear2; the names are those of `swiglu`, which this is with an `up` of 1.

    Source: torch `TransformerEncoderLayer`, whose gelu is the exact one, with erf. Raises `ValueError` for other names.
    """
    x = at("input", arithmetic.cast(x))
    return at("output", swiglu.forward(x, np.ones_like(x), hidden_act, arithmetic=arithmetic))


def unit(y: Array, x: Array, hidden_act: str, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """That of `swiglu.unit` with an `up` of 1."""
    return swiglu.unit(y, x, np.ones_like(x), hidden_act, roundoff=roundoff)


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """The activation of a place's input."""
    return forward(site.inputs[0], site.config.hidden_act, arithmetic=arithmetic, at=at)


def _unit_at_site(site: Site, y: Array) -> Array:
    return unit(y, site.inputs[0], site.config.hidden_act)


STEPS = (
    "input",
    "output",
)

OPS = (Op("activation", at_site, _unit_at_site, steps=STEPS),)
