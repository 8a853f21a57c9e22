"""RMSNorm, of the stream and, as QK-norm, of every head."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.heads import split_heads
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.ops import linear
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit, magnitude
from qwen3_spec.site import Result, Site
from qwen3_spec.sums import same_sign_sum


def forward(x: Array, weight: Array, eps: float, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged) -> Array:
    """`weight * x / sqrt(mean(x^2) + eps)` over the last axis; `x[..., n]`, `weight[n]` -> `[..., n]`.

    The input, post-attention and final norms take `[batch, seq, hidden]`; QK-norm is the same op on
    `[batch, seq, heads, head_dim]`, per head, before RoPE. The mean is not subtracted and eps is inside the root.
    Source: Zhang & Sennrich 2019, `Qwen3RMSNorm`. HF casts x to float32 for the statistics and casts the normalised x
    back before it multiplies by the weight: without the first, a half-precision mean of squares loses its low bits (and
    float16 overflows from |x| = 256 on); without the second, half-precision outputs flip by one ULP wherever rounding
    x-hat and rounding weight * x-hat disagree.
    """
    x = at("input", arithmetic.cast(x))
    square = at("square", np.square(at("summand", x)))
    mean_square = at("mean square", arithmetic.sum(square)[..., None] / x.shape[-1])
    root = at("root", np.sqrt(mean_square + arithmetic.dtype(eps)))
    normalised = at("normalised row", x * at("reciprocal root", 1 / root))
    return at("output", at("weight", arithmetic.cast(weight)) * normalised)


def unit(y: Array, x: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|y| sqrt(1 + (r / 2)^2)`, of RMSNorm and QK-norm: half the roundings r of the sum of squares come through.

    `y` and `x[..., n]` of one shape; the sum runs over the last axis.
    """
    through = same_sign_sum(np.square(FLOAT64.cast(x)))[..., None] / 2
    return as_unit(magnitude(y) * np.hypot(1, through), roundoff)


def normalised(x: Array, eps: float, arithmetic: Arithmetic = FLOAT64) -> tuple[Array, Array]:
    """`x / root` and `1 / root`, the root of the mean square of each row `[..., n]`."""
    x = arithmetic.cast(x)
    scale = 1 / np.sqrt(arithmetic.sum(x * x)[..., None] / x.shape[-1] + arithmetic.dtype(eps))
    return x * scale, scale


def by_input(dy: Array, x: Array, weight: Array, eps: float, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The gradient by x `[..., n]`.

    With r = 1 / sqrt(mean(x^2) + eps) and n = r x, r itself moves with x: `dx = r (dn - n mean(dn n))`, dn = weight dy.
    """
    n, scale = normalised(x, eps, arithmetic)
    dn = arithmetic.cast(weight) * arithmetic.cast(dy)
    return np.asarray(scale * (dn - n * (arithmetic.sum(dn * n)[..., None] / x.shape[-1])))


def by_weight(dy: Array, x: Array, eps: float, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The gradient by the weight `[n]`, which every row (and head) shares."""
    return linear.sum_of_rows(arithmetic.cast(dy) * normalised(x, eps, arithmetic)[0], arithmetic)


def rows(site: Site) -> Array:
    """A norm's input `[..., n]`, as it was recorded: heads are split for QK-norm."""
    x = site.inputs[0]
    return split_heads(x, site.config.head_dim) if site.place.op == "head_norm" else x


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """The norm of a place's input by the place's own weight."""
    return forward(rows(site), site.parameters["weight"], site.config.rms_norm_eps, arithmetic=arithmetic, at=at)


def _unit_at_site(site: Site, y: Array) -> Array:
    return unit(y, rows(site))


def by_input_unit(y: Array, dy: Array, x: Array, weight: Array, eps: float) -> Array:
    """The rounding unit of `y`, the gradient by x."""
    n, scale = normalised(x, eps)
    dn = np.asarray(weight, np.float64) * dy
    products = dn * n
    along = products.mean(axis=-1, keepdims=True)
    drift = np.sqrt((np.cumsum(products, axis=-1) ** 2 + 4 * products**2).sum(axis=-1, keepdims=True)) / x.shape[-1]
    through = same_sign_sum(np.square(np.asarray(x, np.float64)))[..., None]
    relative = 3 * np.abs(dn) + np.abs(n) * (drift + (3 + through) * np.abs(along))
    return as_unit(scale * relative + np.abs(y) * through)


def _weight_and_eps(site: Site) -> tuple[Array, float]:
    (name,) = site.place.parameters
    return np.asarray(site.checkpoint[name]), site.config.rms_norm_eps


def _input_gradient(site: Site, arithmetic: Arithmetic) -> Array:
    """What passes by the norm, if anything does, and what goes back through it."""
    *skip, dy, x = site.inputs
    return linear.total([*map(arithmetic.cast, skip), by_input(dy, x, *_weight_and_eps(site), arithmetic=arithmetic)])


def _input_gradient_judged(site: Site) -> Result:
    *skip, dy, x = site.inputs
    operands = dy, x, *_weight_and_eps(site)
    y = by_input(*operands)
    parts = [(np.asarray(addend, np.float64), np.zeros(addend.shape)) for addend in skip]
    return linear.added([*parts, (y, by_input_unit(y, *operands))])


def _weight_gradient(site: Site, arithmetic: Arithmetic) -> Array:
    eps = site.config.rms_norm_eps
    parts = [by_weight(dy, x.reshape(dy.shape), eps, arithmetic=arithmetic) for dy, x in linear.pairs(site)]
    return linear.total(parts)


def _weight_gradient_judged(site: Site) -> Result:
    parts: list[Result] = []
    for dy, x in linear.pairs(site):
        n, _ = normalised(x.reshape(dy.shape), site.config.rms_norm_eps)
        products = (np.asarray(dy, np.float64) * n).reshape(-1, dy.shape[-1])
        drift = np.sqrt((np.cumsum(products, axis=0) ** 2 + 9 * products**2).sum(axis=0))
        parts.append((products.sum(axis=0), as_unit(drift)))
    return linear.added(parts)


STEPS = (
    "input",
    "summand",
    "square",
    "mean square",
    "root",
    "reciprocal root",
    "normalised row",
    "weight",
    "output",
)

OPS = (
    Op("rms_norm", at_site, _unit_at_site, steps=STEPS, stored=("normalised row",), by_row=True),
    Op("head_norm", at_site, _unit_at_site, steps=STEPS, stored=("normalised row",), by_row=True),
    Op("norm_input_gradient", _input_gradient, both=_input_gradient_judged),
    Op("norm_weight_gradient", _weight_gradient, both=_weight_gradient_judged),
)
