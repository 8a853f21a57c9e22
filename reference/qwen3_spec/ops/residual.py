"""The stream plus a branch."""

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit, magnitude
from qwen3_spec.site import Site


def forward(a: Array, b: Array, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged) -> Array:
    """`a + b`, the stream plus a branch, equal shapes. Source: `Qwen3DecoderLayer`. No cast."""
    return at("output", at("stream", arithmetic.cast(a)) + at("branch", arithmetic.cast(b)))


def unit(a: Array, b: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|a| + |b|`."""
    return as_unit(magnitude(a) + magnitude(b), roundoff)


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """The sum of a place's two inputs."""
    a, b = site.inputs
    return forward(a, b, arithmetic=arithmetic, at=at)


def _unit_at_site(site: Site, _y: Array) -> Array:
    a, b = site.inputs
    return unit(a, b)


STEPS = (
    "stream",
    "branch",
    "output",
)

OPS = (Op("residual", at_site, _unit_at_site, steps=STEPS, by_row=True),)
