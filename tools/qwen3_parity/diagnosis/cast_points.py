"""The ops with every point on the way where an implementation may cast: Hugging Face's points, and others.

Float64 in between. The narrow numbers of a bfloat16 or float16 model multiply exactly in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.norms import rows
from qwen3_parity.judge.budgets import headroom
from qwen3_spec import ops
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

_FLOAT32 = 2.0**-24


class Numbers(NamedTuple):
    """Numbers on the way, how far float32 may move them, and whether it leaves no doubt how they were rounded."""

    values: Array
    noise: Array | float
    certain: Array | bool = True


Cast = Callable[[str, Numbers], Numbers]
"""`cast(point, numbers)`: the numbers as they are stored at a named point of an op."""
Narrow = Callable[[Array], Array]


def stored(points: frozenset[str], narrow: Narrow, point: str, numbers: Numbers) -> Numbers:
    """The numbers as `narrow` rounds them where `point` is one of `points`, as they are elsewhere."""
    if point not in points:
        return numbers
    values, noise, certain = numbers
    agree = narrow(values - noise) == narrow(values + noise)
    return Numbers(narrow(values).astype(np.float64), 0.0, certain & agree)


def _room(op: str) -> float:
    return headroom("op", op).max


_SQUARES, _TOTAL, _MEAN = "the squares", "their sum", "the mean square"
_ROOT, _RECIPROCAL, _HAT = "the root", "the reciprocal root", "the normalised row"


def _norm(site: Site, cast: Cast) -> Numbers:
    x, weight = rows(site), np.asarray(site.parameters["weight"], np.float64)
    relative = _room(site.place.op) * ops.rms_norm.unit(np.ones_like(x[..., :1]), x)
    squares = cast(_SQUARES, Numbers(x * x, 0))
    total = squares.values.sum(axis=-1, keepdims=True)
    total, _, certain = cast(_TOTAL, Numbers(total, relative * total))
    mean = total / x.shape[-1]
    mean, _, certain = cast(_MEAN, Numbers(mean, relative * mean, certain))
    root = np.sqrt(mean + site.config.rms_norm_eps)
    root, _, certain = cast(_ROOT, Numbers(root, relative * root, certain))
    scale, _, certain = cast(_RECIPROCAL, Numbers(1 / root, relative / root, certain))
    hat, noise, certain = cast(_HAT, Numbers(x * scale, relative * np.abs(x * scale), certain))
    return Numbers(weight * hat, np.abs(weight) * noise, certain)


_PRODUCTS = "its two products"


def _rope(site: Site, cast: Cast) -> Numbers:
    x, cos, sin = site.inputs
    x = heads_first(x, site.config.head_dim)
    # Products of narrow numbers are exact in float32, and it rounds a sum of two as float64 does.
    parts = x * cos[:, None], ops.rope.rotate_half(x) * sin[:, None]
    left, right = (cast(_PRODUCTS, Numbers(part, 0)).values for part in parts)
    return Numbers(left + right, 0)


_QUERIES, _PRODUCT = "queries that are scaled before the product", "the product before it is scaled"


def _scores(site: Site, cast: Cast) -> Numbers:
    q, keys = np.asarray(site.inputs[0], np.float64), np.concatenate(site.inputs[1:], axis=2)
    scaled = Numbers(q * site.scaling, _FLOAT32 * np.abs(q) * site.scaling)
    query = cast(_QUERIES, scaled)
    if query is not scaled:
        y, unit = ops.scores.forward(query.values, keys, 1.0), ops.scores.unit(query.values, keys, 1.0)
        return Numbers(y, _room("scores") * unit, np.all(query.certain, axis=-1, keepdims=True))
    y, unit = ops.scores.forward(q, keys, 1.0), ops.scores.unit(q, keys, 1.0)
    product, noise, certain = cast(_PRODUCT, Numbers(y, _room("scores") * unit))
    y = product * site.scaling
    return Numbers(y, noise * site.scaling + 2 * _FLOAT32 * np.abs(y), certain)


_SHIFTED, _EXPONENTIALS, _SUM = "scores less their maximum", "the exponentials", "their sum"
_LOGARITHM = "the logarithm of the result"


def _softmax(site: Site, cast: Cast) -> Numbers:
    scores, mask = np.asarray(site.inputs[0], np.float64), site.inputs[1].astype(bool)
    shown = np.where(mask[:, None], scores, -np.inf)
    shifted = cast(_SHIFTED, Numbers(shown - shown.max(axis=-1, keepdims=True), 0)).values
    weights = np.exp(shifted)
    noise = 2 * _FLOAT32 * (1 - np.where(mask[:, None], shifted, 0)) * weights
    weights, _, certain = cast(_EXPONENTIALS, Numbers(weights, noise))
    sums = weights.sum(axis=-1, keepdims=True)
    certain = np.all(certain, axis=-1, keepdims=True)
    total = cast(_SUM, Numbers(sums, 4 * _FLOAT32 * sums, certain))
    y = weights / total.values
    logarithm = cast(_LOGARITHM, Numbers(np.log(y), 4 * _FLOAT32 * (1 + np.abs(np.log(y))), total.certain))
    y = np.exp(logarithm.values)
    return Numbers(y, _room("softmax") * ops.softmax.unit(y, scores, mask), logarithm.certain | ~mask[:, None])


_SIGMOID, _ACTIVATION = "the sigmoid", "the activation before it is multiplied"


def _swiglu(site: Site, cast: Cast) -> Numbers:
    gate, up = site.inputs
    act, one = site.config.hidden_act, np.ones_like(up)
    plain = ops.swiglu.forward(gate, one, act)
    y = Numbers(plain, _room("swiglu") * ops.swiglu.unit(plain, gate, one, act))
    if act == "silu":
        sigmoid = 1 / (1 + np.exp(-gate))
        rounded = cast(_SIGMOID, Numbers(sigmoid, 4 * _FLOAT32 * (1 + np.abs(gate)) * sigmoid))
        y = Numbers(gate * rounded.values, y.noise, rounded.certain)
    activated = cast(_ACTIVATION, y)
    return Numbers(activated.values * up, activated.noise * np.abs(up), activated.certain)


_BEFORE_BIAS = "the product before its bias"


def _linear(site: Site, cast: Cast) -> Numbers:
    bias = site.parameters.get("bias")
    if bias is None:
        return _once(site, cast)
    product = _once(replace(site, parameters={"weight": site.parameters["weight"]}), cast)
    rounded = cast(_BEFORE_BIAS, product)
    return _once(site, cast) if rounded is product else rounded._replace(values=rounded.values + bias)


def _once(site: Site, _cast: Cast) -> Numbers:
    """An op that is rounded where it ends, and nowhere else."""
    y, unit = OPS[site.place.op].truth(site)
    alone = site.place.op == "residual"  # a sum of two narrow numbers: float32 rounds it as float64 does
    return Numbers(y, 0.0 if unit is None or alone else _room(site.place.op) * unit)


class Op(NamedTuple):
    """An op and the points where a port may cast beside its result; `hf` are those where Hugging Face does."""

    compute: Callable[[Site, Cast], Numbers]
    hf: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


_NORM = Op(_norm, hf=(_HAT,), others=(_SQUARES, _TOTAL, _MEAN, _ROOT, _RECIPROCAL))
CASTING_OPS: Mapping[str, Op] = {
    "rms_norm": _NORM,
    "head_norm": _NORM,
    "rope": Op(_rope, hf=(_PRODUCTS,)),
    "scores": Op(_scores, hf=(_PRODUCT,), others=(_QUERIES,)),
    "softmax": Op(_softmax, others=(_SHIFTED, _EXPONENTIALS, _SUM, _LOGARITHM)),
    "swiglu": Op(_swiglu, hf=(_ACTIVATION,), others=(_SIGMOID,)),
    "linear": Op(_linear, others=(_BEFORE_BIAS,)),
    **dict.fromkeys(("cos", "sin", "context", "residual"), Op(_once)),
}
