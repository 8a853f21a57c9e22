"""Wrong RMSNorm, of the stream and of heads: what a row is divided by, what it is multiplied with, what is rounded."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.factors import named
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.norm_precision import half_precision
from qwen3_parity.hypotheses.observed import Seen, factor_between, likely, seen, settles, unit_of
from qwen3_spec import ops
from qwen3_spec.heads import split_heads
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

FIX = "weight * x / sqrt(mean(x**2) + eps) over the last axis, eps = rms_norm_eps"

Divisor = Callable[[Array, float], Array]
"""What rows `x[..., n]` are divided by, for an eps."""


def mean_square(x: Array) -> Array:
    """`[..., n] -> [..., 1]`."""
    return np.asarray(np.mean(x * x, axis=-1, keepdims=True))


def _over(axes: tuple[int, ...]) -> Divisor:
    return lambda x, eps: np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + eps)


def _of(part: slice) -> Divisor:
    return lambda x, eps: np.sqrt(mean_square(x[..., part]) + eps)


def _variance(x: Array, ddof: int = 0) -> Array:
    return np.asarray(x.var(axis=-1, keepdims=True, ddof=ddof))


def _square_sum(x: Array) -> Array:
    return np.asarray(np.sum(x * x, axis=-1, keepdims=True))


_DIVISORS: tuple[tuple[str, str, Divisor, int], ...] = (
    ("", "", lambda x, eps: np.sqrt(mean_square(x) + eps), 0),
    ("norm.eps_outside_root", "adds eps behind the root", lambda x, eps: np.sqrt(mean_square(x)) + eps, 0),
    ("norm.eps_as_floor", "takes eps as a floor under the root", lambda x, eps: np.maximum(np.sqrt(mean_square(x)), eps), 1),
    ("norm.eps_as_floor", "takes eps as a floor under the mean square", lambda x, eps: np.sqrt(np.maximum(mean_square(x), eps)), 1),
    ("norm.weight_only", "multiplies by the weight without dividing by the root mean square", lambda x, eps: np.ones_like(x[..., :1]), 0),
    ("norm.no_root", "divides by the mean square, without the root", lambda x, eps: mean_square(x) + eps, 0),
    ("norm.sum_not_mean", "divides by the root of the sum of squares, not of their mean", lambda x, eps: np.sqrt(_square_sum(x) + eps), 0),
    ("norm.l2", "divides by the L2 norm", lambda x, eps: np.sqrt(_square_sum(x)), 0),
    ("norm.l2", "divides by the L2 norm plus eps", lambda x, eps: np.sqrt(_square_sum(x)) + eps, 1),
    ("norm.variance", "divides by the standard deviation", lambda x, eps: np.sqrt(_variance(x) + eps), 0),
    ("norm.variance", "divides by the standard deviation plus eps", lambda x, eps: np.sqrt(_variance(x)) + eps, 1),
    ("norm.variance", "divides by the standard deviation over n - 1", lambda x, eps: np.sqrt(_variance(x, 1) + eps), 1),
    ("norm.bessel", "divides the sum of squares by n - 1", lambda x, eps: np.sqrt(_square_sum(x) / (x.shape[-1] - 1) + eps), 0),
    ("norm.bessel", "divides the sum of squares by n + 1", lambda x, eps: np.sqrt(_square_sum(x) / (x.shape[-1] + 1) + eps), 1),
    ("norm.l1", "divides by the mean magnitude", lambda x, eps: np.mean(np.abs(x), axis=-1, keepdims=True) + eps, 0),
    ("norm.l1", "divides by the sum of magnitudes", lambda x, eps: np.sum(np.abs(x), axis=-1, keepdims=True) + eps, 1),
    ("norm.max", "divides by the largest magnitude", lambda x, eps: np.max(np.abs(x), axis=-1, keepdims=True) + eps, 1),
    ("norm.partial", "takes the statistics of the first half of a row", lambda x, eps: _of(slice(None, x.shape[-1] // 2))(x, eps), 1),
    ("norm.partial", "takes the statistics of the second half of a row", lambda x, eps: _of(slice(x.shape[-1] // 2, None))(x, eps), 1),
    ("norm.partial", "leaves the last channel out of the statistics", _of(slice(None, -1)), 1),
    ("norm.partial", "leaves the first channel out of the statistics", _of(slice(1, None)), 1),
    ("norm.partial", "takes the statistics of every other channel", _of(slice(None, None, 2)), 2),
    ("norm.all_heads", "takes the statistics over all heads together", _over((-2, -1)), 0),
    ("norm.axis", "takes the statistics over positions", _over((1,)), 1),
    ("norm.axis", "takes the statistics over the batch", _over((0,)), 1),
    ("norm.axis", "takes the statistics over heads", _over((-2,)), 1),
    ("norm.axis", "takes the statistics of the whole tensor", _over((0, 1, -1)), 2),
    ("norm.axis", "takes the statistics over positions and channels", _over((1, -1)), 1),
)  # fmt: skip
_WEIGHTS: tuple[tuple[str, str, Callable[[Array], Array], int], ...] = (
    ("", "", lambda w: w, 0),
    ("norm.one_plus_weight", "multiplies by 1 + weight", lambda w: 1 + w, 0),
    ("norm.no_weight", "does not multiply by the weight", np.ones_like, 0),
    ("norm.weight_minus_one", "multiplies by weight - 1", lambda w: w - 1, 1),
    ("norm.weight_twice", "multiplies by the weight twice", lambda w: w * w, 0),
    ("norm.weight_magnitude", "multiplies by the weight without its sign", np.abs, 2),
    ("norm.weight_divided", "divides by the weight", lambda w: 1 / w, 2),
)
_CENTRED: tuple[tuple[str, str, int], ...] = (("", "", 0), ("norm.layernorm", "subtracts the mean", 0))


def norm(site: Site) -> Iterator[Hypothesis]:
    """Wrong eps, statistics, weights and roundings of RMSNorm and QK-norm, one mistake or two."""
    what = seen(site)
    with np.errstate(all="ignore"):
        yield from likely(site, what, _eps(site, what))
        plain = list(likely(site, what, (*_formulas(1), *_whole(), *_clamped(what), *_scaled(site, what))))
        yield from plain
        if what is not None and not any(settles(site, what, one.compute(site)) for one in plain):
            yield from likely(site, what, (*_formulas(2), *_formulas(3)))
        yield from likely(site, what, half_precision(FIX))


def rows(site: Site) -> Array:
    """A norm's input, heads split for QK-norm: `[..., n]` in float64."""
    x = site.inputs[0]
    x = split_heads(x, site.config.head_dim) if site.place.op == "head_norm" else x
    return np.asarray(x, np.float64)


def _divided(divisor: Divisor, weight: Callable[[Array], Array], *, centred: bool) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        x = rows(site)
        scale = weight(np.asarray(site.parameters["weight"], np.float64)) / divisor(x, site.config.rms_norm_eps)
        mean = x.mean(axis=-1, keepdims=True) if centred else 0.0
        y = (x - mean) * scale
        if y.shape != x.shape:
            return None
        unit = ops.rms_norm.unit(y, x)
        if centred:  # the subtraction keeps the rounding of what it cancels
            averaged = ops.linear.unit(x, np.full((1, x.shape[-1]), 1 / x.shape[-1]))
            cancelled = FLOAT32_ROUNDOFF * (np.abs(x) + np.abs(mean))
            unit = np.sqrt(unit**2 + np.square(scale) * (cancelled**2 + averaged**2))
        return y, unit

    return compute


def _formulas(mistakes: int) -> Iterator[Hypothesis]:
    """Formulas with so many wrong parts."""
    for (d, says_d, divisor, r), (w, says_w, weight, s), (c, says_c, t) in product(_DIVISORS, _WEIGHTS, _CENTRED):
        names = [name for name in (c, w, d) if name]
        if (c, d) == ("norm.layernorm", "norm.variance"):
            names.remove("norm.variance")
            says_d = "" if "n - 1" not in says_d else says_d
        says = " and ".join(text for text in (says_c, says_w, says_d) if text)
        rank = r + s + t + 2 * (len(names) - 1)
        if len(names) == mistakes:
            yield Hypothesis(names[0], says, FIX, _divided(divisor, weight, centred=bool(c)), rank)


def _eps(site: Site, what: Seen | None) -> Iterator[Hypothesis]:
    """An eps of another size: one that somebody would write, or else what the row of the smallest numbers tells."""
    right = site.config.rms_norm_eps
    plain: list[float] = [0, *(10.0**-k for k in range(2, 13)), *(5 * 10.0**-k for k in range(4, 9)), 3e-3, 2.0**-23]
    plain += [right * f for f in (10, 0.1, 2, 0.5, 100, 0.01)] + [right**0.5, right**2]
    found = None if what is None else _fitted(site, what)
    for eps in sorted({float(e) for e in plain} - {right}, key=lambda e: 0 if found is None else abs(e - found[0])):
        # A number that is as close as rounding can tell needs no fit.
        if found is None or abs(eps - found[0]) <= found[1]:
            yield _with_eps(eps, right, 0)
    if found is not None and -found[1] < found[0] < 1e3:
        yield _with_eps(found[0], right, 1)


def _with_eps(eps: float, right: float, rank: int) -> Hypothesis:
    def compute(site: Site) -> Result:
        x = rows(site)
        y = ops.rms_norm.forward(x, site.parameters["weight"], eps)
        return y, ops.rms_norm.unit(y, x)

    return Hypothesis("norm.eps", f"uses eps {eps:.7g} instead of {right:.7g}", "read rms_norm_eps", compute, rank)


def _fitted(site: Site, what: Seen) -> tuple[float, float] | None:
    """The eps that the wrong row of the smallest mean square tells, and how far it may be off."""
    x = rows(site)
    weighted = x * np.asarray(site.parameters["weight"], np.float64)
    usable = what.wrong & (weighted != 0)
    square = np.where(usable.any(axis=-1), mean_square(x)[..., 0], np.inf)
    row = np.unravel_index(np.argmin(square), square.shape)
    if not np.isfinite(square[row]):
        return None
    a, b = what.actual[row][usable[row]], weighted[row][usable[row]]
    along = float(a @ b)
    if along == 0:
        return None
    divided = (float(b @ b) / along) ** 2
    return divided - float(square[row]), 40 * FLOAT32_ROUNDOFF * divided


def _clamped(what: Seen | None) -> Iterator[Hypothesis]:
    if what is None:
        return
    largest = float(np.abs(what.actual[np.isfinite(what.actual)]).max())

    def compute(bound: float, site: Site) -> Result:
        y, unit = OPS[site.place.op].truth(site)
        return np.clip(y, -bound, bound), unit

    for bound in sorted({largest, 1.0, 3.0, 5.0, 10.0, 100.0} - {0.0}):
        yield Hypothesis("norm.clamped", f"clamps its output to ±{bound:g}", FIX, partial(compute, bound), 2)


def _scaled(site: Site, what: Seen | None) -> Iterator[Hypothesis]:
    if what is None:
        return
    factor = factor_between(what.truth[what.wrong], what.actual[what.wrong].astype(np.float64))

    def compute(site: Site) -> Result:
        y, unit = OPS[site.place.op].truth(site)
        return factor * y, abs(factor) * unit_of((y, unit))

    words = named(factor, site.config) or f"{factor:.7g}"
    yield Hypothesis("norm.scaled", f"is scaled by {words}", FIX, compute, 2)


def _whole() -> Iterator[Hypothesis]:
    def twice(site: Site) -> Result:
        x, w, eps = rows(site), site.parameters["weight"], site.config.rms_norm_eps
        y = ops.rms_norm.forward(ops.rms_norm.forward(x, w, eps), w, eps)
        return y, np.sqrt(2) * ops.rms_norm.unit(y, x)

    def plus_input(site: Site) -> Result:
        x = rows(site)
        y = ops.rms_norm.forward(x, site.parameters["weight"], site.config.rms_norm_eps)
        return y + x, ops.rms_norm.unit(y, x) + ops.residual.unit(x, y)

    def identity(site: Site) -> Result:
        return rows(site), np.full(rows(site).shape, 2.0**-126)

    yield Hypothesis("norm.no_norm", "is left out: it hands on its input", FIX, identity)
    yield Hypothesis("norm.twice", "is applied twice", "normalise once", twice)
    yield Hypothesis("norm.plus_input", "adds its input to its output", "hand on the normed rows alone", plus_input, 2)


def other_statistic(site: Site) -> Iterator[Hypothesis]:
    """Whatever rows are divided by, the rest being right: for norms that nothing else explains."""
    says = "gives each row a factor of its own: what it divides by is wrong, the weight is right"
    yield Hypothesis("norm.other_statistic", says, FIX, _row_factors, 8)


def _row_factors(site: Site) -> Result | None:
    what = seen(site)
    if what is None:
        return None
    squares = np.sum(what.truth * what.truth, axis=-1, keepdims=True)
    factor = np.sum(what.actual * what.truth, axis=-1, keepdims=True) / np.where(squares > 0, squares, 1)
    return what.truth * factor, unit_of((what.truth, what.unit)) * np.abs(factor)
