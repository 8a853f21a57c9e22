"""Values weighted by probabilities."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.heads import heads_first, side_by_side
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.ops import repeat_kv, scores, softmax
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit, magnitude
from qwen3_spec.site import Site
from qwen3_spec.sums import dot_products, twins


def forward(probs: Array, v: Array, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged) -> Array:
    """Values weighted by `probs[batch, heads, query, key]` -> `[batch, query, heads, head_dim]`.

    `v[batch, kv_heads, key, head_dim]`; the heads, laid side by side in this order, are o_proj's input, of width
    heads * head_dim (not hidden). Source: HF `eager_attention_forward`. No cast.
    """
    probs, v = at("probabilities", arithmetic.cast(probs)), at("values", arithmetic.cast(v))
    values = repeat_kv.forward(v, probs.shape[1] // v.shape[1], arithmetic=arithmetic)
    return np.swapaxes(at("output", arithmetic.matmul(probs, values)), 1, 2)


def unit(probs: Array, v: Array, scores: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """The root of three squares, `[batch, query, heads, head_dim]`; `scores` (s) are the recorded ones.

    `sum p (1 + |s|) |v|`, since a fused kernel rounds p inside the sum; half of the linear's unit for `sum p v`, more
    where its products are alike (one token repeated); and y times the roundings of a row's sum, by which a fused kernel
    divides last.
    """
    p, values = magnitude(probs), repeat_kv.forward(v, probs.shape[1] // v.shape[1])
    inside = (p * (1 + np.where(p > 0, magnitude(scores), 0))) @ np.abs(values)
    y, drift = dot_products(p, values)
    alike = np.minimum(twins(p)[..., None], twins(np.swapaxes(values, -1, -2))[..., None, :])
    added = np.sqrt(drift) * (1 + alike * np.sqrt(p.shape[-1])) / 2
    divided = y * softmax.row_sum(p)
    return as_unit(np.swapaxes(np.sqrt(inside**2 + added**2 + divided**2), 1, 2), roundoff)


def by_probs(dy: Array, v: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The gradient by the probabilities; `dy[batch, query, heads, head_dim]`, `v[batch, kv_heads, key, head_dim]`."""
    values = repeat_kv.forward(v, dy.shape[2] // v.shape[1], arithmetic=arithmetic)
    return arithmetic.matmul(np.swapaxes(arithmetic.cast(dy), 1, 2), np.swapaxes(values, -1, -2))


def by_values(dy: Array, probs: Array, kv_heads: int, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The gradient by `v[batch, kv_heads, key, head_dim]`; `dy[batch, query, heads, head_dim]`."""
    by_head = np.swapaxes(arithmetic.cast(dy), 1, 2)
    dvalues = arithmetic.matmul(np.swapaxes(arithmetic.cast(probs), -1, -2), by_head)
    return repeat_kv.backward(dvalues, probs.shape[1] // kv_heads, arithmetic=arithmetic)


def all_values(site: Site) -> Array:
    """The values that a context weighs, `[batch, kv_heads, key, head_dim]`: the decoder's, then the encoder's."""
    # The encoder's own values are its v_proj; the decoder's come from the cache, heads first already.
    values = [heads_first(v, site.config.head_dim) if v.ndim == 3 else v for v in site.inputs[1:]]
    return np.concatenate(values, axis=2)


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """A place's probabilities times all values, the decoder's own first."""
    return forward(site.inputs[0], all_values(site), arithmetic=arithmetic, at=at)


def _unit_at_site(site: Site, _y: Array) -> Array:
    probs, scores = site.inputs[0], site.values.value(site.sibling("scores"), site.step)
    known = np.zeros_like(probs) if scores is None or scores.shape != probs.shape else scores
    return unit(probs, all_values(site), known)


def _gradient(site: Site, arithmetic: Arithmetic) -> Array:
    if site.place.name.endswith("probs"):
        return by_probs(site.inputs[0], all_values(site), arithmetic=arithmetic)
    dy, probs = site.inputs
    y = by_values(dy, probs, site.config.num_key_value_heads, arithmetic=arithmetic)
    return side_by_side(scores.half(site, y))


def _gradient_unit(site: Site, _y: Array) -> Array:
    dy = np.swapaxes(np.asarray(site.inputs[0], np.float64), 1, 2)
    if site.place.name.endswith("probs"):
        values = all_values(site)
        values = repeat_kv.forward(values, dy.shape[1] // values.shape[1])
        return as_unit(np.sqrt(dot_products(dy, np.swapaxes(values, -1, -2))[1]))
    products = dot_products(np.swapaxes(np.asarray(site.inputs[1], np.float64), -1, -2), dy)
    return side_by_side(scores.half(site, scores.grouped_unit(*products, site.config.num_key_value_heads)))


STEPS = (
    "probabilities",
    "values",
    "output",
)

OPS = (
    Op("context", at_site, _unit_at_site, steps=STEPS),
    Op("context_gradient", _gradient, _gradient_unit),
)
