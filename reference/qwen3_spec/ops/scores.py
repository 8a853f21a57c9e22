"""Queries times keys, scaled, unmasked."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.ops import repeat_kv
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit
from qwen3_spec.site import Result, Site
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


def backward(dy: Array, q: Array, k: Array, scaling: float, *, arithmetic: Arithmetic = FLOAT64) -> tuple[Array, Array]:
    """By `q[batch, heads, query, head_dim]` and `k[batch, kv_heads, key, head_dim]`; dy as the scores."""
    groups = q.shape[1] // k.shape[1]
    keys = repeat_kv.forward(k, groups, arithmetic=arithmetic)
    scaled = arithmetic.cast(dy) * arithmetic.dtype(scaling)
    dkeys = arithmetic.matmul(np.swapaxes(scaled, -1, -2), arithmetic.cast(q))
    return arithmetic.matmul(scaled, keys), repeat_kv.backward(dkeys, groups, arithmetic=arithmetic)


def _operands(site: Site) -> tuple[Array, Array, float]:
    return site.inputs[0], np.concatenate(site.inputs[1:], axis=2), site.scaling


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """A place's queries by all keys, the decoder's own first."""
    return forward(*_operands(site), arithmetic=arithmetic, at=at)


def _unit_at_site(site: Site, _y: Array) -> Array:
    return unit(*_operands(site))


def grouped(values: Array, drift: Array, kv_heads: int) -> Result:
    """Sums over the query heads that share a KV head, `[batch, heads, key, width]` to `kv_heads`, with their unit."""
    split = (values.shape[0], kv_heads, -1, *values.shape[2:])
    parts = values.reshape(split)
    squares = drift.reshape(split).sum(axis=2) + (np.cumsum(parts, axis=2) ** 2).sum(axis=2)
    return parts.sum(axis=2), as_unit(np.sqrt(squares))


def by_keys(site: Site, kv_heads: int) -> Result:
    """What the gradient of the scores passes back to all keys, `[batch, kv_heads, key, head_dim]`."""
    scores, queries = site.values.value(site.sibling("scores"), site.step), site.values.value(query_name(site), 0)
    assert scores is not None and queries is not None
    return grouped(*dot_products(np.swapaxes(scores * site.scaling, -1, -2), np.asarray(queries, np.float64)), kv_heads)


def query_name(site: Site) -> str:
    """The rotated queries of the site's attention, forward."""
    return site.sibling("q_rope").removeprefix("gradient.")


def half(site: Site, of_all: Result) -> Result:
    """The decoder's own keys or values of `[batch, kv_heads, key, head_dim]`, or the encoder's, which stand behind."""
    value, noise = of_all
    own = sum(site.case.steps)
    if site.place.name.startswith("gradient.encoder."):
        return of_all
    part = slice(own, None) if ".encoder_" in site.place.name.rpartition("merged_attn")[2] else slice(None, own)
    assert noise is not None
    return value[:, :, part], noise[:, :, part]


def _gradient(site: Site) -> Result:
    if site.place.name.endswith("q_rope"):
        keys = np.concatenate(site.inputs[1:], axis=2)
        groups = site.inputs[0].shape[1] // keys.shape[1]
        scaled = np.asarray(site.inputs[0], np.float64) * site.scaling
        y, drift = dot_products(scaled, repeat_kv.forward(keys, groups))
        return y, as_unit(np.sqrt(drift) + np.abs(y))
    return half(site, by_keys(site, site.case.config.num_key_value_heads))


STEPS = (
    "queries",
    "keys",
    "products",
    "output",
)

OPS = (
    Op("scores", at_site, _unit_at_site, steps=STEPS, stored=("products",), masked=True),
    Op("scores_gradient", lambda site, _: _gradient(site)[0], both=_gradient),
)
