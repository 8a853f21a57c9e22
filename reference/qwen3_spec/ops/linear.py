"""Every projection and the LM head: a matrix product, and a bias."""

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit
from qwen3_spec.site import Result, Site
from qwen3_spec.sums import dot_products

_WEIGHT_BLOCK = 1 << 22
"""Weight elements cast at a time: a vocabulary-sized float64 copy would not fit next to the model."""
_OUTPUTS = 256
"""Outputs treated at a time, so that casts and partial sums stay in the cache."""


def forward(
    x: Array, weight: Array, bias: Array | None = None, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged
) -> Array:
    """`x @ weight.T + bias`; `x[..., in]`, `weight[out, in]`, `bias[out]` -> `[..., out]`.

    Every projection and the LM head. Source: torch `Linear`. No cast.
    """
    rows = at("input", arithmetic.cast(x)).reshape(math.prod(x.shape[:-1]), x.shape[-1])
    outputs, inputs = weight.shape
    out = np.empty((rows.shape[0], outputs), arithmetic.dtype)
    block = max(1, _WEIGHT_BLOCK // inputs)
    for start in range(0, outputs, block):
        columns = slice(start, start + block)
        out[:, columns] = arithmetic.matmul(rows, at("weight", arithmetic.cast(weight[columns])).T)
    if bias is not None:
        out = at("product", out) + arithmetic.cast(bias)
    return at("output", out).reshape(*x.shape[:-1], outputs)


def unit(x: Array, weight: Array, bias: Array | None = None, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`sqrt(sum of squared partial sums + sum of squared products)` -> `[..., out]`, at every size one scale.

    Each addition rounds its partial sum, each product rounds itself, independently; `sums.dot_products` says how the
    partial sums are had. The bias is one partial sum more; or, where a sum starts with it, part of all of them.
    """
    return judged(x, weight, bias, roundoff=roundoff)[1]


def judged(
    x: Array, weight: Array, bias: Array | None = None, *, roundoff: float = FLOAT32_ROUNDOFF
) -> tuple[Array, Array]:
    """`forward` in float64 and `unit`, each `[..., out]`, in one pass over `weight[out, in]`.

    Weights are cast a few outputs at a time: a memory-mapped checkpoint stays mapped.
    """
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    shape = (*x.shape[:-1], weight.shape[0])
    y, unit = (np.empty((rows.shape[0], weight.shape[0])) for _ in range(2))
    for start in range(0, weight.shape[0], _OUTPUTS):
        outputs = slice(start, start + _OUTPUTS)
        product, drift = dot_products(rows, weight[outputs].T)
        if bias is not None:
            offset = FLOAT64.cast(bias[outputs])
            product += offset
            drift += x.shape[-1] * offset * offset + product * product
        y[:, outputs] = product
        np.sqrt(drift, out=unit[:, outputs])
    return y.reshape(shape), as_unit(unit, roundoff).reshape(shape)


def by_input(dy: Array, weight: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The gradient by x, `dy @ weight`; `dy[..., out]`, `weight[out, in]` -> `[..., in]`."""
    rows = arithmetic.cast(dy).reshape(-1, dy.shape[-1])
    outputs, inputs = weight.shape
    dx = np.empty((rows.shape[0], inputs), arithmetic.dtype)
    block = max(1, _WEIGHT_BLOCK // outputs)
    for start in range(0, inputs, block):
        columns = slice(start, start + block)
        dx[:, columns] = arithmetic.matmul(rows, arithmetic.cast(weight[:, columns]))
    return dx.reshape(*dy.shape[:-1], inputs)


def by_weight(dy: Array, x: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The gradient by the weight `[out, in]`, `dy^T @ x` over all rows; `dy[..., out]`, `x[..., in]`."""
    rows, drows = (arithmetic.cast(a).reshape(-1, a.shape[-1]) for a in (x, dy))
    return arithmetic.matmul(drows.T, rows)


def sum_of_rows(x: Array, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`[..., n] -> [n]`, over all rows: the gradient by a bias."""
    x = arithmetic.cast(x)
    return arithmetic.sum(np.ascontiguousarray(x.reshape(-1, x.shape[-1]).T))


def rows_of(values: Array) -> Array:
    """`[batch, seq, ...] -> [batch * seq, channels]` in float64."""
    return np.asarray(values, np.float64).reshape(values.shape[0] * values.shape[1], -1)


def total(parts: Sequence[Array]) -> Array:
    """The sum of several uses of one value, in their order."""
    return np.asarray(reduce(np.add, parts))


def added(parts: Sequence[Result]) -> Result:
    """The sum of several uses of one value: its parts' units, and a rounding for every addition."""
    y, squares, roundings = (np.zeros(parts[0][0].shape) for _ in range(3))
    for value, noise in parts:
        assert noise is not None
        y, squares = y + value, squares + noise**2
        roundings = roundings + np.abs(y) * (len(parts) > 1)
    return y, np.sqrt(squares + np.square(FLOAT32_ROUNDOFF * roundings))


def _flat(x: Array) -> Array:
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """The projection of a place's input, heads laid side by side."""
    weight, bias = site.parameters["weight"], site.parameters.get("bias")
    return forward(_flat(site.inputs[0]), weight, bias, arithmetic=arithmetic, at=at)


def _both(site: Site) -> Result:
    if not site.values.units:
        y = at_site(site, FLOAT64)
        return y, np.broadcast_to(0.0, y.shape)
    return judged(_flat(site.inputs[0]), site.parameters["weight"], site.parameters.get("bias"))


def _weights(site: Site) -> list[Array]:
    """Those of the projections that read a value whose gradient this is."""
    return [np.asarray(site.checkpoint[name]) for name in site.place.parameters]


def _as_heads(site: Site, y: Array) -> Array:
    return y.reshape(*y.shape[:2], -1, site.config.head_dim) if "heads" in site.place.axes else y


def _input_gradient(site: Site, arithmetic: Arithmetic) -> Array:
    """Layer by layer from the last one, as it is met on the way back."""
    layers: dict[str, list[Array]] = {}
    for name, dy, weight in zip(site.names, site.inputs, _weights(site), strict=True):
        readers = layers.setdefault(name.partition(".layers.")[2].partition(".")[0], [])
        readers.append(by_input(_flat(dy), weight, arithmetic=arithmetic))
    return _as_heads(site, total([total(readers) for readers in reversed(layers.values())]))


def _input_gradient_judged(site: Site) -> Result:
    y, noise = added([judged(_flat(dy), weight.T) for dy, weight in zip(site.inputs, _weights(site), strict=True)])
    assert noise is not None
    return _as_heads(site, y), _as_heads(site, noise)


def pairs(site: Site) -> list[tuple[Array, Array]]:
    """The uses of a parameter: the gradient of what came of each, and its input."""
    return list(zip(site.inputs[::2], site.inputs[1::2], strict=True))


def _weight_gradient(site: Site, arithmetic: Arithmetic) -> Array:
    return total([by_weight(_flat(dy), _flat(x), arithmetic=arithmetic) for dy, x in pairs(site)])


def _weight_gradient_judged(site: Site) -> Result:
    return added([judged(rows_of(dy).T, rows_of(x).T) for dy, x in pairs(site)])


def _bias_gradient(site: Site, arithmetic: Arithmetic) -> Array:
    return total([sum_of_rows(dy, arithmetic) for dy in site.inputs])


def _bias_gradient_judged(site: Site) -> Result:
    parts = []
    for dy in site.inputs:
        rows = rows_of(dy).T
        y, noise = judged(rows, np.ones((1, rows.shape[1])))
        parts.append((y[:, 0], noise[:, 0]))
    return added(parts)


STEPS = (
    "input",
    "weight",
    "product",
    "output",
)

OPS = (
    Op("linear", at_site, steps=STEPS, both=_both, by_row=True),
    Op("linear_input_gradient", _input_gradient, both=_input_gradient_judged),
    Op("weight_gradient", _weight_gradient, both=_weight_gradient_judged),
    Op("bias_gradient", _bias_gradient, both=_bias_gradient_judged),
)
