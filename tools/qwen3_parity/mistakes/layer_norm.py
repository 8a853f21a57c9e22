"""Wrong LayerNorm: its eps, statistics, weight and bias, where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.formulas import Formula, combined, inputs
from qwen3_parity.mistakes.generic import BLOCKS, casts
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes, OfSite
from qwen3_parity.mistakes.norm_placement import placement
from qwen3_parity.mistakes.observed import likely, observe
from qwen3_parity.mistakes.parameters import other_tensors
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_spec.classic_config import classic_config
from qwen3_spec.site import Site

FIX = "weight * (x - mean) / sqrt(variance + eps) + bias over the last axis, the variance divided by n"

Divisor = Callable[[Array, float], Array]
"""What rows `x[..., n]` are divided by, for an eps."""
Change = Callable[[Array], Array]


def _mean(x: Array) -> Array:
    return np.asanyarray(x.mean(axis=-1, keepdims=True))


def _variance(x: Array, ddof: int = 0) -> Array:
    return np.asanyarray(x.var(axis=-1, keepdims=True, ddof=ddof))


def _by_width(block: int, x: Array, eps: float) -> Array:
    """Squares over the channels that fill whole blocks, of which there are more."""
    width = -(-x.shape[-1] // block) * block
    return np.asanyarray(np.sqrt(_variance(x) * x.shape[-1] / width + eps))


def _with_lanes(block: int, x: Array, eps: float) -> Array:
    """The zeros that fill a row up are as far from its mean as that is from 0."""
    return np.asanyarray(np.sqrt(_variance(x) + (-x.shape[-1] % block) * _mean(x) ** 2 / x.shape[-1] + eps))


_DIVISORS: tuple[tuple[str, str, Divisor, int], ...] = (
    ("", "", lambda x, eps: np.sqrt(_variance(x) + eps), 0),
    ("norm.eps_outside_root", "adds eps behind the root", lambda x, eps: np.sqrt(_variance(x)) + eps, 2),
    ("norm.bessel", "divides the variance by n - 1", lambda x, eps: np.sqrt(_variance(x, 1) + eps), 2),
    ("norm.bessel", "divides the variance by n - 1 and adds eps behind the root",
     lambda x, eps: np.sqrt(_variance(x, 1)) + eps, 2),
    ("norm.mean_square", "divides by the root mean square", lambda x, eps: np.sqrt(_mean(x * x) + eps), 2),
    ("norm.no_root", "divides by the variance, without the root", lambda x, eps: _variance(x) + eps, 2),
    ("norm.no_root", "divides by the square of the variance", lambda x, eps: (_variance(x) + eps) ** 2, 2),
    ("norm.inverted", "multiplies by the deviation, where it should divide",
     lambda x, eps: 1 / np.sqrt(_variance(x) + eps), 2),
    ("norm.weight_only", "subtracts the mean without dividing", lambda x, eps: np.ones_like(x[..., :1]), 2),
    *(("norm.width", f"divides the squares by the channels of whole blocks of {block}", partial(_by_width, block), 2)
      for block in BLOCKS),
    *(("norm.padded_lanes", f"centres and squares what fills a row up to whole blocks of {block}, too",
       partial(_with_lanes, block), 2) for block in BLOCKS),
    ("norm.axis", "takes the deviation over positions", lambda x, eps: np.sqrt(x.var(axis=1, keepdims=True) + eps), 2),
)  # fmt: skip
_WEIGHTS: tuple[tuple[str, str, Change, int], ...] = (
    ("", "", np.asanyarray, 0),
    ("norm.no_weight", "does not multiply by the weight", np.ones_like, 2),
    ("norm.one_plus_weight", "multiplies by 1 + weight", lambda w: 1 + w, 2),
    ("norm.weight_twice", "multiplies by the weight twice", lambda w: w * w, 2),
)
_BIASES: tuple[tuple[str, str, Change, int], ...] = (
    ("", "", np.asanyarray, 0),
    ("norm.no_bias", "adds no bias", np.zeros_like, 2),
    ("norm.bias_twice", "adds the bias twice", lambda b: 2 * b, 2),
)
_CENTRES: tuple[tuple[str, str, Change, int], ...] = (
    ("", "", _mean, 0),
    ("norm.rms", "does not subtract the mean", lambda x: np.zeros_like(x[..., :1]), 2),
)
_EPS = (0.0, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


def layer_norm(site: Site) -> Iterator[Hypothesis]:
    """Wrong eps and formulas, with one wrong part or two; another LayerNorm's parameters; no norm at all."""
    observed = observe(site)
    with np.errstate(all="ignore"):
        yield from likely(site, observed, _plain(site))
        yield from casts(site, observed, "norm.half_precision", FIX)


def _plain(site: Site) -> Iterator[Hypothesis]:
    expected = classic_config(site).layer_norm_eps
    for eps in _EPS:
        if eps != expected:
            says = f"uses eps {eps:g} instead of {expected:g}"
            yield Hypothesis("norm.eps", says, "read layer_norm_eps", OfSite(partial(_with_eps, eps)))
    yield from _formulas()
    fix = "load each LayerNorm's own weight and bias"
    for which, words in ((1, "norm1"), (2, "norm2")):
        says = f"uses weight and bias of its layer's {words}"
        yield Hypothesis("weight.other_tensor", says, fix, OfSite(partial(_of_norm, which)))
    yield Hypothesis("norm.no_norm", "is left out", FIX, lambda site: (site.inputs[0], None))
    yield Hypothesis("norm.twice", "is applied twice", FIX, Formula(_twice))


def _with_eps(eps: float, site: Site) -> Site:
    return replace(site, config=replace(classic_config(site), layer_norm_eps=eps))


def _of_norm(which: int, site: Site) -> Site | None:
    """The site with the parameters of the layer's first or second LayerNorm."""
    base = f"{site.place.name.rpartition('.')[0]}.norm{which}"
    tensors = {part: site.checkpoint.get(f"{base}.{part}") for part in ("weight", "bias")}
    parameters = {part: value for part, value in tensors.items() if value is not None}
    is_own = f"{base}.weight" in site.place.parameters
    return None if is_own or len(parameters) < len(tensors) else replace(site, parameters=parameters)


def _twice(site: Site) -> Array:
    normal = partial(_computed, _CENTRES[0][2], _WEIGHTS[0][2], _BIASES[0][2], _DIVISORS[0][2])
    return normal(replace(site, inputs=(normal(site),)))


def _formulas() -> Iterator[Hypothesis]:
    """One wrong part, then two; the usual norm by the root mean square is two: no mean is subtracted or squared."""
    for names, says, parts, steps in combined(_CENTRES, _WEIGHTS, _BIASES, _DIVISORS):
        steps -= 2 + 2 * ({"norm.rms", "norm.mean_square"} <= {*names})
        if 0 <= steps <= 2:
            yield Hypothesis(names[0], says, FIX, Formula(partial(_computed, *parts)), PLAIN + steps)


def _computed(centre: Change, weight: Change, bias: Change, divisor: Divisor, site: Site) -> Array:
    (x,), eps = inputs(site), classic_config(site).layer_norm_eps
    scale, offset = (np.asanyarray(site.parameters[part], np.float64) for part in ("weight", "bias"))
    return np.asanyarray(weight(scale) * (x - centre(x)) / divisor(x, eps) + bias(offset))


MISTAKES: Mapping[str, Mistakes] = {
    "layer_norm": Mistakes((placement, layer_norm, other_tensors)),
}
