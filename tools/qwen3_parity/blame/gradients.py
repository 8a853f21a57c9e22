"""How the loss and each gradient are computed again from a site: the way back of one op, with its rounding unit.

`inputs` of a site are gradients that the candidate recorded and the forward taps that they go back through. Units count
roundings on those very inputs, as `qwen3_spec.units` does for the ops forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.gradients_loss import ROUNDOFF, SMALLEST, loss, loss_gradient, unit
from qwen3_parity.blame.site import Result, Site
from qwen3_spec import backward_ops as back
from qwen3_spec import ops, units
from qwen3_spec.backward_blocks import split_heads
from qwen3_spec.sums import dot_products, same_sign_sum


def rows_of(values: Array) -> Array:
    """`[batch, seq, ...] -> [batch * seq, channels]` in float64."""
    return np.asarray(values, np.float64).reshape(values.shape[0] * values.shape[1], -1)


def heads_first(site: Site, values: Array) -> Array:
    """`[batch, seq, channel]` or `[batch, seq, heads, head_dim]` -> `[batch, heads, seq, head_dim]`."""
    return np.swapaxes(values if values.ndim == 4 else split_heads(values, site.config.head_dim), 1, 2)


def added(parts: Sequence[Result]) -> Result:
    """The sum of several uses of one value: its parts' units, and a rounding for every addition."""
    total, squares, roundings = (np.zeros(parts[0][0].shape) for _ in range(3))
    for value, noise in parts:
        assert noise is not None
        total, squares = total + value, squares + noise**2
        roundings = roundings + np.abs(total) * (len(parts) > 1)
    return total, np.sqrt(squares + np.square(ROUNDOFF * roundings))


def _linear_input(site: Site) -> Result:
    parts = []
    for dy, name in zip(site.inputs, site.place.parameters, strict=True):
        weight = np.asarray(site.checkpoint[name])
        parts.append(units.linear_judged(dy.reshape(*dy.shape[:2], -1), weight.T))
    total, noise = added(parts)
    shape = (*total.shape[:2], -1, site.config.head_dim) if "heads" in site.place.axes else total.shape
    assert noise is not None
    return total.reshape(shape), noise.reshape(shape)


def _weight(site: Site) -> Result:
    return added(
        [
            units.linear_judged(rows_of(dy).T, rows_of(x).T)
            for dy, x in zip(site.inputs[::2], site.inputs[1::2], strict=True)
        ]
    )


def _bias(site: Site) -> Result:
    parts = []
    for dy in site.inputs:
        rows = rows_of(dy).T
        total, noise = units.linear_judged(rows, np.ones((1, rows.shape[1])))
        parts.append((total[:, 0], noise[:, 0]))
    return added(parts)


def normalised(x: Array, eps: float) -> tuple[Array, Array]:
    """`x / root` and `1 / root`, the root of the mean square of each row `[..., n]`."""
    x = np.asarray(x, np.float64)
    scale = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    return x * scale, scale


def norm_back(dy: Array, x: Array, weight: Array, eps: float) -> Result:
    """Of RMSNorm by its input, `[..., n]`: `(dn - n mean(dn n)) / root`, dn = weight dy."""
    n, scale = normalised(x, eps)
    dn = np.asarray(weight, np.float64) * dy
    products = dn * n
    along = products.mean(axis=-1, keepdims=True)
    y = scale * (dn - n * along)
    drift = np.sqrt((np.cumsum(products, axis=-1) ** 2 + 4 * products**2).sum(axis=-1, keepdims=True)) / x.shape[-1]
    through = same_sign_sum(np.square(np.asarray(x, np.float64)))[..., None]
    own = 3 * np.abs(dn) + np.abs(n) * (drift + (3 + through) * np.abs(along))
    return y, unit(scale * own + np.abs(y) * through)


def _norm_input(site: Site) -> Result:
    *skip, dy, x = site.inputs
    (name,) = site.place.parameters
    y, noise = norm_back(dy, x, np.asarray(site.checkpoint[name]), site.config.rms_norm_eps)
    return added([(np.asarray(one, np.float64), np.zeros(one.shape)) for one in skip] + [(y, noise)])


def _norm_weight(site: Site) -> Result:
    parts: list[Result] = []
    for dy, x in zip(site.inputs[::2], site.inputs[1::2], strict=True):
        width = dy.shape[-1]
        n, _ = normalised(x.reshape(*x.shape[:2], -1, width), site.config.rms_norm_eps)
        products = (np.asarray(dy, np.float64).reshape(n.shape) * n).reshape(-1, width)
        drift = np.sqrt((np.cumsum(products, axis=0) ** 2 + 9 * products**2).sum(axis=0))
        parts.append((products.sum(axis=0), unit(drift)))
    return added(parts)


def _swiglu(site: Site) -> Result:
    dy, gate, up = (np.asarray(one, np.float64) for one in site.inputs)
    act = site.config.hidden_act
    by_gate, by_up = back.swiglu_gradient(dy, gate, up, act)
    if site.place.name.endswith("up_proj"):
        return by_up, units.swiglu_unit(by_up, gate, dy, act)
    passed = np.abs(ops.swiglu(gate, np.ones_like(gate), act)) / np.maximum(np.abs(gate), SMALLEST)
    slope = np.abs(back.activation_slope(gate, act)) + passed
    return by_gate, unit(np.abs(dy * up) * slope * (1 + np.abs(gate)))


def _softmax(site: Site) -> Result:
    dy, probs = (np.asarray(one, np.float64) for one in site.inputs)
    products = dy * probs
    along = np.abs(products.sum(axis=-1, keepdims=True))
    drift = np.sqrt((np.cumsum(products, axis=-1) ** 2 + products**2).sum(axis=-1, keepdims=True))
    return back.softmax_gradient(dy, probs), unit(np.abs(probs) * (2 * np.abs(dy) + 2 * along + drift))


def grouped(values: Array, drift: Array, kv_heads: int) -> Result:
    """Sums over the query heads that share a KV head, `[batch, heads, key, width]` to `kv_heads`, with their unit."""
    split = (values.shape[0], kv_heads, -1, *values.shape[2:])
    parts = values.reshape(split)
    squares = drift.reshape(split).sum(axis=2) + (np.cumsum(parts, axis=2) ** 2).sum(axis=2)
    return parts.sum(axis=2), unit(np.sqrt(squares))


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


def _scores(site: Site) -> Result:
    if site.place.name.endswith("q_rope"):
        keys = np.concatenate(site.inputs[1:], axis=2)
        groups = site.inputs[0].shape[1] // keys.shape[1]
        scaled = np.asarray(site.inputs[0], np.float64) * site.scaling
        y, drift = dot_products(scaled, ops.repeat_kv(keys, groups))
        return y, unit(np.sqrt(drift) + np.abs(y))
    return half(site, by_keys(site, site.case.config.num_key_value_heads))


def _context(site: Site) -> Result:
    dy = np.swapaxes(np.asarray(site.inputs[0], np.float64), 1, 2)
    if site.place.name.endswith("probs"):
        values = np.concatenate([v if v.ndim == 4 else heads_first(site, v) for v in site.inputs[1:]], axis=2)
        values = ops.repeat_kv(values, dy.shape[1] // values.shape[1])
        y, drift = dot_products(dy, np.swapaxes(values, -1, -2))
        return y, unit(np.sqrt(drift))
    probs = np.asarray(site.inputs[1], np.float64)
    found = grouped(*dot_products(np.swapaxes(probs, -1, -2), dy), site.case.config.num_key_value_heads)
    value, noise = half(site, found)
    assert noise is not None
    return flat(value), flat(noise)


def flat(values: Array) -> Array:
    """`[batch, heads, seq, head_dim] -> [batch, seq, channel]`."""
    return np.swapaxes(values, 1, 2).reshape(values.shape[0], values.shape[2], -1)


def rope_back(site: Site, dy: Array) -> Result:
    """Of the rotation, `[batch, heads, seq, head_dim]`, by the tables at the tap's positions."""
    name = site.place.name.removeprefix("gradient.")
    own = "encoder_" if ".encoder_" in name else ""
    cos, sin = (site.values.value(f"{name.partition('.')[0]}.{own}{table}", 0) for table in ("cos", "sin"))
    assert cos is not None and sin is not None
    return back.rope_gradient(dy, cos, sin), units.apply_rope_unit(dy, cos, -sin)


def _head(site: Site) -> Result:
    """Of what stands between a projection and the scores: the rotation, QK-norm, or nothing (unrotated keys)."""
    source, name = site.names[0], site.place.name.removeprefix("gradient.")
    if source.endswith("_norm"):
        x = split_heads(site.inputs[1], site.config.head_dim)
        norm = name.replace("encoder_k_proj", "k_proj").replace("_proj", "_norm") + ".weight"
        y, noise = norm_back(site.inputs[0], x, np.asarray(site.checkpoint[norm]), site.config.rms_norm_eps)
        return y.reshape(site.inputs[1].shape), np.asarray(noise).reshape(site.inputs[1].shape)
    if source.endswith("_rope"):
        y, noise = rope_back(site, site.inputs[0])
    else:
        y, noise = half(site, by_keys(site, site.case.config.num_key_value_heads))
    assert noise is not None
    if name.endswith("_norm"):
        return np.swapaxes(y, 1, 2), np.swapaxes(noise, 1, 2)
    return flat(y), flat(noise)


def embedding_parts(site: Site) -> dict[str, Result]:
    """The uses of the embedding: the look-up of each stack, and a tied head, each `[vocab, hidden]` with its unit."""
    given = dict(zip(site.names, site.inputs, strict=True))
    weight = site.checkpoint["decoder.embed_tokens.weight"]
    padding = site.case.training.padding_idx if site.case.training.HasField("padding_idx") else None
    parts: dict[str, Result] = {}
    for stack in ("encoder", "decoder"):
        dy, ids = given.get(f"gradient.{stack}.embed_tokens"), given.get(f"input.{stack}_input_ids")
        if dy is not None and ids is not None:
            total = back.embedding_gradient(dy, ids, len(weight), padding)
            parts[stack] = total, unit(back.embedding_gradient(np.abs(dy), ids, len(weight), padding))
    if site.config.tie_word_embeddings:
        parts["head"] = units.linear_judged(rows_of(given["gradient.logits"]).T, rows_of(given["decoder.norm"]).T)
    return parts


def _embedding(site: Site) -> Result:
    return added(list(embedding_parts(site).values()))


GRADIENT_OPS: dict[str, Callable[[Site], Result]] = {
    "loss": loss,
    "loss_gradient": loss_gradient,
    "linear_input_gradient": _linear_input,
    "norm_input_gradient": _norm_input,
    "swiglu_gradient": _swiglu,
    "context_gradient": _context,
    "softmax_gradient": _softmax,
    "scores_gradient": _scores,
    "head_gradient": _head,
    "weight_gradient": _weight,
    "bias_gradient": _bias,
    "norm_weight_gradient": _norm_weight,
    "embedding_gradient": _embedding,
}
"""How each op of the way back is computed again."""
