"""Queries times keys, scaled, unmasked."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.ops import repeat_kv
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit
from qwen3_spec.site import Site
from qwen3_spec.sums import dot_products, twins


def forward(q: Array, k: Array, scaling: float, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged) -> Array:
    """`scaling * q k^T`, unmasked -> `[batch, heads, query, key]`; scaling is `head_dim ** -0.5`.

    `q[batch, heads, query, head_dim]`, `k[batch, kv_heads, key, head_dim]`, each KV head serving consecutive query
    heads. Source: Vaswani et al. 2017, HF `eager_attention_forward`. No cast: half-precision scores stay so until the
    softmax.
    """
    q, k = at("queries", arithmetic.cast(q)), at("keys", arithmetic.cast(k))
    keys = repeat_kv.forward(k, q.shape[1] // k.shape[1], arithmetic=arithmetic)
    products = at("products", arithmetic.matmul(q, np.swapaxes(keys, -1, -2)))
    return np.asarray(at("output", products * arithmetic.dtype(scaling)))


def unit(q: Array, k: Array, scaling: float, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`scaling` times the linear's unit of `sum q k`, `[batch, heads, query, key]`, more where its products are alike.

    Channels that are all alike, in a query and in a key, make partial sums that round the same way.
    """
    groups = q.shape[1] // k.shape[1]
    keys = np.swapaxes(repeat_kv.forward(k, groups), -1, -2)
    alike = np.minimum(twins(q)[..., None], np.repeat(twins(k), groups, axis=1)[..., None, :])
    drift = np.sqrt(dot_products(q, keys)[1]) * (1 + alike * np.sqrt(q.shape[-1]) / 2)
    return as_unit(abs(scaling) * drift, roundoff)


def by_queries(dy: Array, k: Array, scaling: float, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The gradient by `q[batch, heads, query, head_dim]`; dy as the scores, `k[batch, kv_heads, key, head_dim]`."""
    keys = repeat_kv.forward(k, dy.shape[1] // k.shape[1], arithmetic=arithmetic)
    return arithmetic.matmul(arithmetic.cast(dy) * arithmetic.dtype(scaling), keys)


def by_keys(dy: Array, q: Array, kv_heads: int, scaling: float, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The gradient by `k[batch, kv_heads, key, head_dim]`; dy as the scores, `q[batch, heads, query, head_dim]`."""
    scaled = arithmetic.cast(dy) * arithmetic.dtype(scaling)
    dkeys = arithmetic.matmul(np.swapaxes(scaled, -1, -2), arithmetic.cast(q))
    return repeat_kv.backward(dkeys, q.shape[1] // kv_heads, arithmetic=arithmetic)


def _operands(site: Site) -> tuple[Array, Array, float]:
    return site.inputs[0], np.concatenate(site.inputs[1:], axis=2), site.scaling


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """A place's queries by all keys, the decoder's own first."""
    return forward(*_operands(site), arithmetic=arithmetic, at=at)


def _unit_at_site(site: Site, _y: Array) -> Array:
    return unit(*_operands(site))


def grouped_unit(values: Array, drift: Array, kv_heads: int) -> Array:
    """The unit of sums over the query heads that share a KV head, `[batch, heads, key, width]` to `kv_heads`."""
    split = (values.shape[0], kv_heads, -1, *values.shape[2:])
    squares = drift.reshape(split).sum(axis=2) + (np.cumsum(values.reshape(split), axis=2) ** 2).sum(axis=2)
    return as_unit(np.sqrt(squares))


def _scores_and_queries(site: Site) -> tuple[Array, Array]:
    """The gradient of the scores of the site's attention, and its queries."""
    scores, queries = site.values.value(site.sibling("scores"), site.step), site.values.value(query_name(site), 0)
    assert scores is not None and queries is not None
    return scores, queries


def keys_gradient(site: Site, arithmetic: Arithmetic) -> Array:
    """What the scores pass back to the site's keys, `[batch, kv_heads, key, head_dim]`."""
    kv_heads = site.config.num_key_value_heads
    return half(site, by_keys(*_scores_and_queries(site), kv_heads, site.scaling, arithmetic=arithmetic))


def keys_gradient_unit(site: Site) -> Array:
    """The rounding unit of `keys_gradient`."""
    scores, queries = (np.asarray(values, np.float64) for values in _scores_and_queries(site))
    products = dot_products(np.swapaxes(scores * site.scaling, -1, -2), queries)
    return half(site, grouped_unit(*products, site.config.num_key_value_heads))


def query_name(site: Site) -> str:
    """The rotated queries of the site's attention, forward."""
    return site.sibling("q_rope").removeprefix("gradient.")


def half(site: Site, of_all: Array) -> Array:
    """The decoder's own keys or values of `[batch, kv_heads, key, head_dim]`, or the encoder's, which stand behind."""
    length = sum(site.case.steps)
    if site.place.name.startswith("gradient.encoder."):
        return of_all
    part = slice(length, None) if ".encoder_" in site.place.name.rpartition("merged_attn")[2] else slice(None, length)
    return of_all[:, :, part]


def _gradient(site: Site, arithmetic: Arithmetic) -> Array:
    if site.place.name.endswith("q_rope"):
        return by_queries(*_operands(site), arithmetic=arithmetic)
    return keys_gradient(site, arithmetic)


def _gradient_unit(site: Site, y: Array) -> Array:
    if not site.place.name.endswith("q_rope"):
        return keys_gradient_unit(site)
    dy, keys, scaling = _operands(site)
    scaled = np.asarray(dy, np.float64) * scaling
    _, drift = dot_products(scaled, repeat_kv.forward(keys, dy.shape[1] // keys.shape[1]))
    return as_unit(np.sqrt(drift) + np.abs(y))


STEPS = (
    "queries",
    "keys",
    "products",
    "output",
)

OPS = (
    Op("scores", at_site, _unit_at_site, steps=STEPS, stored=("products",), masked=True),
    Op("scores_gradient", _gradient, _gradient_unit),
)
