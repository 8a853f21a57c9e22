"""Wrong RMSNorm, of the stream and of heads: what a row is divided by, what it is multiplied with, what is rounded."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.fitting import fitted
from qwen3_parity.mistakes.formulas import Formula, Wrong, combined
from qwen3_parity.mistakes.formulas import rows as formulas
from qwen3_parity.mistakes.generic import BLOCKS, Counts, casts, clamped, miscounted, scaled
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes, with_config
from qwen3_parity.mistakes.narrow_sums import narrow_sums
from qwen3_parity.mistakes.normed import norm as norm_of
from qwen3_parity.mistakes.normed import normed
from qwen3_parity.mistakes.observed import Observed, factor_between, likely, observe, settles, unit_of
from qwen3_parity.mistakes.parameters import loaded_as_stored, other_tensors
from qwen3_parity.mistakes.ranks import COMBINED, FITTED, PLAIN, RARE, Rank
from qwen3_parity.mistakes.streams import skips
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
    return np.asanyarray(np.mean(x * x, axis=-1, keepdims=True))


def _over(axes: tuple[int, ...]) -> Divisor:
    return lambda x, eps: np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + eps)


def _of(part: slice) -> Divisor:
    return lambda x, eps: np.sqrt(mean_square(x[..., part]) + eps)


def _variance(x: Array, ddof: int = 0) -> Array:
    return np.asanyarray(x.var(axis=-1, keepdims=True, ddof=ddof))


def _square_sum(x: Array) -> Array:
    return np.asanyarray(np.sum(x * x, axis=-1, keepdims=True))


_DIVISORS: tuple[tuple[str, str, Divisor, int], ...] = (
    ("", "", lambda x, eps: np.sqrt(mean_square(x) + eps), 0),
    ("norm.eps_outside_root", "adds eps behind the root", lambda x, eps: np.sqrt(mean_square(x)) + eps, 0),
    ("norm.eps_as_floor", "takes eps as a floor under the root", lambda x, eps: np.maximum(np.sqrt(mean_square(x)), eps), 1),
    ("norm.eps_as_floor", "takes eps as a floor under the mean square", lambda x, eps: np.sqrt(np.maximum(mean_square(x), eps)), 1),
    ("norm.eps_in_count", "adds eps to the number of channels, not to the mean square", lambda x, eps: np.sqrt(_square_sum(x) / (x.shape[-1] + eps)), 1),
    ("norm.weight_only", "multiplies by the weight without dividing by the root mean square", lambda x, eps: np.ones_like(x[..., :1]), 0),
    ("norm.no_root", "divides by the mean square, without the root", lambda x, eps: mean_square(x) + eps, 0),
    ("norm.no_root", "divides by the square of the mean square", lambda x, eps: (mean_square(x) + eps) ** 2, 2),
    ("norm.inverted", "multiplies by the root mean square, where it should divide", lambda x, eps: 1 / np.sqrt(mean_square(x) + eps), 1),
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
_CENTRES: tuple[tuple[str, str, Callable[[Array], Array | float], int], ...] = (
    ("", "", lambda x: 0.0, 0),
    ("norm.layernorm", "subtracts the mean", lambda x: np.mean(x, axis=-1, keepdims=True), 0),
)
_WHOLE: tuple[tuple[str, str, Rank, Wrong], ...] = (
    ("no_norm", "is left out: it hands on its input", PLAIN, lambda site: rows(site)),
    ("twice", "is applied twice", PLAIN, lambda site: _normed(site, _normed(site, rows(site)))),
    ("squared_input", "norms the squares of its input, x²", PLAIN + 1, lambda site: _normed(site, rows(site) ** 2)),
    ("squared_input", "has x² in the place of x: the squares of its statistics are multiplied", PLAIN + 1,
     lambda site: rows(site) * _normed(site, rows(site))),
    ("plus_input", "adds its input to its output", RARE, lambda site: _normed(site, rows(site)) + rows(site)),
)  # fmt: skip


def norm(site: Site) -> Iterator[Hypothesis]:
    """Wrong eps, statistics, weights and roundings of RMSNorm and QK-norm, one mistake or two."""
    observed = observe(site)
    with np.errstate(all="ignore"):
        yield from likely(site, observed, _eps(site, observed))
        plain = list(likely(site, observed, (*_formulas(1), *formulas("norm", FIX, _WHOLE))))
        plain += clamped(site, observed, "norm.clamped", FIX, (1, 3, 5, 10, 100), RARE)
        plain += scaled(site, observed, "norm.scaled", FIX, RARE)
        plain += miscounted(site, observed, "norm.lost_terms", rows(site).shape[-1], _counted)
        plain += likely(site, observed, _widths(site) if observed is None else _numbers(site, observed))
        yield from plain
        if observed is not None and not any(settles(site, observed, hypothesis.compute(site)) for hypothesis in plain):
            yield from likely(site, observed, (*_formulas(2), *_formulas(3)))
        yield from casts(site, observed, "norm.half_precision", FIX)
        yield from narrow_sums(site, observed)
        yield from likely(site, observed, [_weight_before_cast()])


def _counted(counts: Counts, site: Site) -> Result:
    x = rows(site)
    square = np.mean(x * x * counts(x.shape[-1]), axis=-1, keepdims=True)
    y = x * np.asarray(site.parameters["weight"], np.float64) / np.sqrt(square + site.config.rms_norm_eps)
    return y, ops.rms_norm.unit(y, x)


def _of_width(width: int, expected: int) -> Hypothesis:
    says = f"divides the sum of squares by {width}, not by the {expected} numbers of a row"
    return Hypothesis("norm.width", says, FIX, Formula(_divided(divisor=partial(_by_width, width))), PLAIN + 1)


def _widths(site: Site) -> Iterator[Hypothesis]:
    """The widths of a row that is filled up to whole blocks."""
    expected = rows(site).shape[-1]
    widths = {-(-expected // block) * block for block in BLOCKS} - {expected}
    yield from (_of_width(width, expected) for width in sorted(widths))


def _numbers(site: Site, observed: Observed) -> Iterator[Hypothesis]:
    """A width, or a number added to the weight, that the recorded rows tell."""
    x, eps = rows(site), site.config.rms_norm_eps
    row = np.unravel_index(np.argmax(np.where(observed.wrong.any(axis=-1), mean_square(x)[..., 0], -1)), x.shape[:-1])
    factor = factor_between(observed.truth[row], observed.actual[row].astype(np.float64))
    left = (float(mean_square(x[row])[0]) + eps) / max(factor, 1e-6) ** 2 - eps
    width = round(float(np.sum(x[row] ** 2)) / left) if left > 0 else 0
    if width > 0 and width != x.shape[-1]:
        yield _of_width(width, x.shape[-1])
    if weight_of_rows(site) is not None:
        yield from fitted(site, observed, "weight.constant_added", FIX, "multiplies by weight {:+.6g}".format,
                          lambda c, site: _divided(weight=lambda w: w + c)(site), (0.5,))  # fmt: skip


def _by_width(width: int, x: Array, eps: float) -> Array:
    return np.sqrt(_square_sum(x) / width + eps)


def _weight_before_cast() -> Hypothesis:
    says = "multiplies by the weight before it casts to the stream's type"
    fix = "weight * x_hat.to(dtype): cast the normalised row first"
    return Hypothesis("norm.weight_before_cast", says, fix, lambda site: OPS[site.place.op].truth(site), RARE + 1)


def rows(site: Site) -> Array:
    """A norm's input, heads split for QK-norm: `[..., n]` in float64."""
    x = site.inputs[0]
    x = split_heads(x, site.config.head_dim) if site.place.op == "head_norm" else x
    return np.asanyarray(x, np.float64)


def _divided(
    centre: Callable[[Array], Array | float] = _CENTRES[0][2],
    weight: Callable[[Array], Array] = _WEIGHTS[0][2],
    divisor: Divisor = _DIVISORS[0][2],
) -> Wrong:
    def wrong(site: Site) -> Array | None:
        x, scale = rows(site), np.asanyarray(site.parameters["weight"], np.float64)
        y = (x - centre(x)) * (weight(scale) / divisor(x, site.config.rms_norm_eps))
        return y if y.shape == x.shape else None

    return wrong


def _formulas(mistakes: int) -> Iterator[Hypothesis]:
    """Formulas with so many wrong parts."""
    for names, says, parts, steps in combined(_CENTRES, _WEIGHTS, _DIVISORS):
        if "norm.layernorm" in names and "norm.variance" in names:  # of numbers without a mean it is the mean square
            names.remove("norm.variance")
        if len(names) == mistakes:
            yield Hypothesis(names[0], says, FIX, Formula(_divided(*parts)), PLAIN + steps + 2 * (len(names) - 1))


def _eps(site: Site, observed: Observed | None) -> Iterator[Hypothesis]:
    """An eps of another size: one that somebody would write, or else what the row of the smallest numbers tells."""
    expected = site.config.rms_norm_eps
    plain: list[float] = [0, *(10.0**-k for k in range(2, 13)), *(5 * 10.0**-k for k in range(4, 9)), 3e-3, 2.0**-23]
    plain += [expected * f for f in (10, 0.1, 2, 0.5, 100, 0.01)] + [expected**0.5, expected**2]
    fit = None if observed is None else _fitted(site, observed)
    for eps in sorted({float(e) for e in plain} - {expected}, key=lambda e: 0 if fit is None else abs(e - fit[0])):
        # A number that is as close as rounding can tell needs no fit.
        if fit is None or abs(eps - fit[0]) <= fit[1]:
            yield _with_eps(eps, expected, PLAIN)
    if fit is not None and -fit[1] < fit[0] <= _LARGEST_EPS:
        yield _with_eps(fit[0], expected, PLAIN + 1)
    width = rows(site).shape[-1]
    padded = sorted({-(-width // block) * block - width for block in BLOCKS} - {0})
    for lanes in padded:
        if fit is None or abs(expected + lanes / width - fit[0]) <= fit[1]:
            says = f"takes {lanes} numbers more into the mean square, each 1: a row filled up to {width + lanes}"
            fix = "load the lanes behind a row's end as 0, and divide by the numbers of the row"
            yield Hypothesis(
                "norm.padded_lanes", says, fix, with_config(rms_norm_eps=expected + lanes / width), PLAIN + 1
            )
    if fit is not None and _LARGEST_EPS < fit[0] < 1e3:
        says = (
            f"adds {fit[0] - expected:.7g} to the mean square, {(fit[0] - expected) * width:.4g} to the sum of squares"
        )
        yield Hypothesis("norm.constant_added", says, FIX, with_config(rms_norm_eps=fit[0]), RARE)


_LARGEST_EPS = 0.01
"""What nobody would write as an eps is more."""


def _with_eps(eps: float, expected: float, rank: Rank) -> Hypothesis:
    says = f"uses eps {eps:.7g} instead of {expected:.7g}"
    return Hypothesis("norm.eps", says, "read rms_norm_eps", with_config(rms_norm_eps=eps), rank)


def _fitted(site: Site, observed: Observed) -> tuple[float, float] | None:
    """The eps that the wrong row of the smallest mean square tells, and how far it may be off."""
    x = rows(site)
    weighted = x * np.asarray(site.parameters["weight"], np.float64)
    usable = observed.wrong & (weighted != 0)
    square = np.where(usable.any(axis=-1), mean_square(x)[..., 0], np.inf)
    row = np.unravel_index(np.argmin(square), square.shape)
    if not np.isfinite(square[row]):
        return None
    a, b = observed.actual[row][usable[row]], weighted[row][usable[row]]
    along = float(a @ b)
    if along == 0:
        return None
    divided = (float(b @ b) / along) ** 2
    return divided - float(square[row]), 40 * FLOAT32_ROUNDOFF * divided


def _normed(site: Site, x: Array) -> Array:
    return norm_of(site, x, site.parameters["weight"])


def other_statistic(site: Site) -> Iterator[Hypothesis]:
    """Whatever rows are divided by, the rest being right: for norms that nothing else explains."""
    says = "gives each row a factor of its own: what it divides by is wrong, the weight is right"
    observed, name = observe(site), "norm.other_statistic"
    if observed is not None:
        wrong = observed.wrong.any(axis=-1)
        off, squares = np.abs(_factors(observed)[wrong] - 1), mean_square(rows(site))[wrong]
        if off.size and off.max() < _CLOSE:
            name = "norm.approximated"
            says = (
                f"approximates its reciprocal root: rows are up to {off.max():.2g} of it off, each by its own number, "
                f"for mean squares from {squares.min():.3g} to {squares.max():.3g}"
            )
    yield Hypothesis(name, says, FIX, _row_factors, FITTED)


_CLOSE = 0.02
"""How far an approximated root may be off, of itself."""


def _factors(observed: Observed) -> Array:
    squares = np.sum(observed.truth * observed.truth, axis=-1, keepdims=True)
    factors = np.sum(observed.actual * observed.truth, axis=-1, keepdims=True) / np.where(squares > 0, squares, 1)
    return np.asarray(factors)


def _row_factors(site: Site) -> Result | None:
    observed = observe(site)
    if observed is None:
        return None
    factor = _factors(observed)
    return observed.truth * factor, unit_of((observed.truth, observed.unit)) * np.abs(factor)


def other_weight(site: Site) -> Iterator[Hypothesis]:
    """The weight of each channel that its rows tell."""
    weight = None if observe(site) is None or loaded_as_stored(site) else weight_of_rows(site)
    if weight is None:
        return
    expected = np.asarray(site.parameters["weight"], np.float64)
    wrong = np.flatnonzero(np.abs(weight - expected) > 1e-5 * np.abs(expected) + 1e-7)
    shown = ", ".join(f"[{i}] {weight[i]:.5g} for {expected[i]:.5g}" for i in wrong[:4])
    says = f"has a weight of no tensor of the checkpoint: {len(wrong)} of {len(expected)} channels differ, {shown}"

    def compute(site: Site) -> Result | None:
        recovered = weight_of_rows(site)
        return None if recovered is None else OPS[site.place.op].truth(replace(site, parameters={"weight": recovered}))

    yield Hypothesis(
        "weight.unknown", says, "compare what is loaded with the checkpoint, element by element", compute, COMBINED + 3
    )


def weight_of_rows(site: Site) -> Array | None:
    """`[n]`: the weight that reproduces a recorded norm best, channel by channel; the right one where nothing is wrong."""
    observed = observe(site)
    expected = np.asarray(site.parameters["weight"], np.float64)
    if observed is None:
        return expected
    x = rows(site)
    hat = (x / np.sqrt(mean_square(x) + site.config.rms_norm_eps)).reshape(-1, x.shape[-1])
    actual = observed.actual.astype(np.float64).reshape(hat.shape)
    wrong = observed.wrong.reshape(hat.shape) & np.isfinite(actual)
    if len(np.unique(hat[wrong.any(axis=1)], axis=0)) < 2 or wrong.sum(axis=0).max() < 2:
        return None  # one row, and the same row again, tells any weight
    squares = np.where(wrong, hat * hat, 0).sum(axis=0)
    fitted = np.where(wrong, hat * actual, 0).sum(axis=0) / np.where(squares > 0, squares, 1)
    return np.where(squares > 0, fitted, expected)


def behind_rotation(site: Site) -> Iterator[Hypothesis]:
    """QK-norm of what RoPE has turned: in such a network the rotation is no tap behind it."""
    fix = "norm queries and keys as they are projected, then rotate: x * cos + rotate_half(x) * sin"
    says = "norms the rotated projection: RoPE stands ahead of QK-norm, not behind it"
    yield from likely(site, observe(site), [Hypothesis("rope.before_norm", says, fix, _of_turned)])


def _of_turned(site: Site) -> Result | None:
    tables = [site.values.value(f"{site.stack}.{name}", site.step) for name in ("cos", "sin")]
    x = rows(site)
    if any(table is None or table.shape != (*x.shape[:2], x.shape[-1]) for table in tables):
        return None
    cos, sin = (np.asarray(table, np.float64)[:, :, None] for table in tables)
    turned, half = x * cos, ops.rope.rotate_half(x) * sin
    y, unit = normed(site, turned + half, site.parameters["weight"])
    noise = FLOAT32_ROUNDOFF * 2 * (np.abs(turned) + np.abs(half))
    root = np.sqrt(mean_square(turned + half) + site.config.rms_norm_eps)
    gain = np.abs(np.asarray(site.parameters["weight"], np.float64)) / root
    return y, unit_of((y, unit)) + gain * noise


MISTAKES: Mapping[str, Mistakes] = {
    "rms_norm": Mistakes((norm, skips, other_tensors), (other_weight, other_statistic)),
    "head_norm": Mistakes((norm, behind_rotation, other_tensors), (other_weight, other_statistic)),
}
