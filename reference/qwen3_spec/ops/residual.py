"""The stream plus a branch."""

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit, magnitude
from qwen3_spec.site import Site


def forward(a: Array, b: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`a + b`, the stream plus a branch, equal shapes. Source: `Qwen3DecoderLayer`. No cast."""
    return arithmetic.cast(a) + arithmetic.cast(b)


def unit(a: Array, b: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|a| + |b|`."""
    return as_unit(magnitude(a) + magnitude(b), roundoff)


def backward(dy: Array, *, arithmetic: Arithmetic = FLOAT64) -> tuple[Array, Array]:
    """By the stream and by the branch: both get all of `dy`."""
    dy = arithmetic.cast(dy)
    return dy, dy


def at_site(site: Site, arithmetic: Arithmetic) -> Array:
    """The sum of a place's two inputs."""
    a, b = site.inputs
    return forward(a, b, arithmetic=arithmetic)


def _unit_at_site(site: Site, _y: Array) -> Array:
    a, b = site.inputs
    return unit(a, b)


OPS = (Op("residual", at_site, _unit_at_site, by_row=True),)
