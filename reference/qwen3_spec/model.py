"""The whole network, built from `ops`: a bidirectional Qwen3 encoder and a Qwen3 decoder with merged attention.

Every value worth comparing is handed to `tap(name, value)` in execution order, under its tap name. Parameters are named
like taps, with `.weight` or `.bias` after them; linear weights are `[out, in]`. cos and sin are given, because the
reference's float32 tables are part of the reference. A causal Qwen3 is the decoder without an encoder.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from qwen3_spec import ops
from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.config import SpecConfig

Tap = Callable[[str, Array], None]
Weights = Mapping[str, Array]
Layer = Callable[[str, Callable[[], Array]], Array]
"""`layer(name, compute)` gives a layer's output: `compute()`, or what an earlier run left of it."""


def computed(_name: str, compute: Callable[[], Array]) -> Array:
    """The ordinary `Layer`: every layer is computed."""
    return compute()


@dataclass
class Cache:
    """Keys and values of the decoder, one array `[batch, kv_heads, key, head_dim]` per layer; empty before step 0.

    `keys`, `values` grow by the step's slots; `encoder_keys`, `encoder_values` are filled once, at step 0, and stay
    empty without an encoder. Keys are stored normed and rotated.
    """

    keys: list[Array] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)
    encoder_keys: list[Array] = field(default_factory=list)
    encoder_values: list[Array] = field(default_factory=list)

    def grow(self, layer: int, keys: Array, values: Array) -> None:
        """Append a step's keys and values to those of a layer; layers come in order."""
        if layer == len(self.keys):
            self.keys.append(keys)
            self.values.append(values)
        else:
            self.keys[layer] = np.concatenate([self.keys[layer], keys], axis=2)
            self.values[layer] = np.concatenate([self.values[layer], values], axis=2)

    def remember(self, keys: Array, values: Array) -> None:
        """Keep the next layer's keys and values of the encoder."""
        self.encoder_keys.append(keys)
        self.encoder_values.append(values)


@dataclass(frozen=True)
class _Run:
    """One run's constants, and the ops that have parameters: each records its output under its own name."""

    weights: Weights
    config: SpecConfig
    tap: Tap
    arithmetic: Arithmetic

    def record(self, name: str, value: Array) -> Array:
        """Hand `value` to the tap and pass it on."""
        self.tap(name, value)
        return value

    def embed(self, name: str, ids: Array) -> Array:
        """Token embeddings, `[batch, seq] -> [batch, seq, hidden]`; of embeddings `[batch, seq, hidden]` themselves."""
        if ids.ndim == 3:
            return self.arithmetic.cast(ids)
        return self.record(name, ops.embedding.forward(ids, self.weights[f"{name}.weight"], arithmetic=self.arithmetic))

    def norm(self, name: str, x: Array, parameter: str = "") -> Array:
        """RMSNorm over the last axis, with the weight of `parameter` (default: the tap's own)."""
        weight = self.weights[f"{parameter or name}.weight"]
        return self.record(name, ops.rms_norm.forward(x, weight, self.config.rms_norm_eps, arithmetic=self.arithmetic))

    def linear(self, name: str, x: Array, parameter: str = "", *, bias: bool = False) -> Array:
        """A projection, with the weight (and bias) of `parameter` (default: the tap's own)."""
        own = parameter or name
        weight, offset = self.weights[f"{own}.weight"], self.weights[f"{own}.bias"] if bias else None
        return self.record(name, ops.linear.forward(x, weight, offset, arithmetic=self.arithmetic))

    def projection(self, name: str, x: Array, parameter: str = "") -> Array:
        """A q, k or v projection split into heads, `[batch, seq, hidden] -> [batch, seq, heads, head_dim]`."""
        flat = self.linear(name, x, parameter, bias=self.config.attention_bias)
        return flat.reshape(*flat.shape[:2], -1, self.config.head_dim)

    def head_norm(self, name: str, x: Array, parameter: str = "") -> Array:
        """QK-norm on `[batch, seq, heads, head_dim]`; nothing, and no tap, in a model without it."""
        return self.norm(name, x, parameter) if self.config.use_qk_norm else x

    def rope(self, name: str, x: Array, cos: Array, sin: Array) -> Array:
        """RoPE, `[batch, seq, heads, head_dim] -> [batch, heads, seq, head_dim]`."""
        return self.record(name, ops.rope.forward(_heads_first(x), cos, sin, arithmetic=self.arithmetic))


def _heads_first(x: Array) -> Array:
    return np.swapaxes(x, 1, 2)


def _queries_keys_values(run: _Run, site: str, x: Array, cos: Array, sin: Array) -> tuple[Array, Array, Array]:
    """A stack's own queries, keys and values, heads first, normed and rotated."""
    q = run.projection(f"{site}.q_proj", x)
    k = run.projection(f"{site}.k_proj", x)
    v = run.projection(f"{site}.v_proj", x)
    q, k = run.head_norm(f"{site}.q_norm", q), run.head_norm(f"{site}.k_norm", k)
    return run.rope(f"{site}.q_rope", q, cos, sin), run.rope(f"{site}.k_rope", k, cos, sin), _heads_first(v)


def _attention(run: _Run, site: str, q: Array, k: Array, v: Array, mask: Array) -> Array:
    """From rotated queries and all keys and values to the branch, `[batch, query, hidden]`."""
    run.record(f"{site}.mask", mask)
    scaling = run.config.head_dim**-0.5
    scores = run.record(f"{site}.scores", ops.scores.forward(q, k, scaling, arithmetic=run.arithmetic))
    probs = run.record(f"{site}.probs", ops.softmax.forward(scores, mask, arithmetic=run.arithmetic))
    context = run.record(f"{site}.context", ops.context.forward(probs, v, arithmetic=run.arithmetic))
    side_by_side = context.reshape(*context.shape[:2], -1)
    return run.linear(f"{site}.o_proj", side_by_side, bias=run.config.attention_out_bias)


def _layer(run: _Run, name: str, x: Array, attend: Callable[[Array], Array]) -> Array:
    """A pre-norm block around `attend`, `[batch, seq, hidden]` in and out."""
    run.record(f"{name}.input", x)
    branch = attend(run.norm(f"{name}.input_layernorm", x))
    x = run.record(f"{name}.attn_residual", ops.residual.forward(x, branch, arithmetic=run.arithmetic))
    normed = run.norm(f"{name}.post_attention_layernorm", x)
    gate = run.linear(f"{name}.mlp.gate_proj", normed)
    up = run.linear(f"{name}.mlp.up_proj", normed)
    act = run.record(f"{name}.mlp.act", ops.swiglu.forward(gate, up, run.config.hidden_act, arithmetic=run.arithmetic))
    down = run.linear(f"{name}.mlp.down_proj", act)
    return run.record(f"{name}.output", ops.residual.forward(x, down, arithmetic=run.arithmetic))


def encoder(
    weights: Weights,
    config: SpecConfig,
    input_ids: Array,
    attention_mask: Array,
    cos: Array,
    sin: Array,
    tap: Tap,
    arithmetic: Arithmetic = FLOAT64,
    layer: Layer = computed,
) -> Array:
    """The bidirectional stack with its final norm -> `[batch, seq, hidden]`.

    `input_ids[batch, seq]` integers, or embeddings `[batch, seq, hidden]` in their place; `attention_mask[batch, seq]`
    nonzero = real token; `cos, sin[batch, seq, head_dim]`. `layer` runs each layer, so that one that was computed
    before need not be computed again.
    Source: HF `Qwen3Model` with `config.is_causal = False`.
    """
    run = _Run(weights, config, tap, arithmetic)
    x = run.embed("encoder.embed_tokens", input_ids)
    for index in range(config.num_hidden_layers):
        name = f"encoder.layers.{index}"
        mask = ops.mask.encoder_mask(attention_mask, config.window(index))

        def attend(normed: Array, site: str = f"{name}.self_attn", mask: Array = mask) -> Array:
            return _attention(run, site, *_queries_keys_values(run, site, normed, cos, sin), mask)

        x = layer(name, partial(_layer, run, name, x, attend))
    return run.norm("encoder.norm", x)


def _remember_encoder(run: _Run, site: str, hidden: Array, cos: Array | None, sin: Array | None, cache: Cache) -> None:
    """A layer's keys and values of the encoder's final output: k_norm as on own keys, no input_layernorm."""
    k = run.projection(f"{site}.encoder_k_proj", hidden, f"{site}.k_proj")
    v = run.projection(f"{site}.encoder_v_proj", hidden, f"{site}.v_proj")
    k = run.head_norm(f"{site}.encoder_k_norm", k, f"{site}.k_norm")
    if run.config.rotate_encoder_keys:
        if cos is None or sin is None:
            raise ValueError("rotate_encoder_keys is set: encoder_cos and encoder_sin are needed at step 0")
        keys = run.rope(f"{site}.encoder_k_rope", k, cos, sin)
    else:
        keys = _heads_first(k)
    cache.remember(keys, _heads_first(v))


def _merged_keys_values(run: _Run, site: str, index: int, cache: Cache) -> tuple[Array, Array]:
    """All keys and values of a layer, the decoder's first; records the cache's contents."""
    keys = [run.record(f"{site}.cache_keys", cache.keys[index])]
    values = [run.record(f"{site}.cache_values", cache.values[index])]
    if cache.encoder_keys:
        keys.append(run.record(f"{site}.cache_encoder_keys", cache.encoder_keys[index]))
        values.append(run.record(f"{site}.cache_encoder_values", cache.encoder_values[index]))
    return np.concatenate(keys, axis=2), np.concatenate(values, axis=2)


def decoder_step(
    weights: Weights,
    config: SpecConfig,
    input_ids: Array,
    decoder_mask: Array,
    cos: Array,
    sin: Array,
    cache: Cache,
    tap: Tap,
    arithmetic: Arithmetic = FLOAT64,
    encoder_hidden: Array | None = None,
    encoder_mask: Array | None = None,
    encoder_cos: Array | None = None,
    encoder_sin: Array | None = None,
    layer: Layer = computed,
) -> Array:
    """One step (a whole prompt, a chunk or a token) of the merged decoder -> logits `[batch, query, vocab]`.

    `input_ids[batch, query]`, or embeddings `[batch, query, hidden]`; `decoder_mask[batch, past + query]` nonzero = a
    real token; `cos, sin[batch, query, head_dim]` of the query's positions. `cache` is changed in place.
    `encoder_hidden[batch, enc, hidden]` (the encoder's final output) and `encoder_cos, encoder_sin[batch, enc,
    head_dim]` are read at step 0, when the cache is empty; `encoder_mask[batch, enc]` at every step. Without an encoder
    (None or enc = 0) this is a causal Qwen3. `layer` runs each layer; one that does not compute must itself give the
    cache what the layer would have given it. Raises `ValueError` when mask, cache and encoder do not fit each other.
    Source: HF `Qwen3ForCausalLM`; merged attention as in `T5Gemma2MergedAttention`.
    """
    run = _Run(weights, config, tap, arithmetic)
    first = not cache.keys
    past = 0 if first else cache.keys[0].shape[2]
    if decoder_mask.shape[1] != past + input_ids.shape[1]:
        raise ValueError(
            f"decoder_mask covers {decoder_mask.shape[1]} slots: {past} past + {input_ids.shape[1]} current expected"
        )
    if first:
        memory = encoder_hidden if encoder_hidden is not None and encoder_hidden.shape[1] else None
        length = 0 if memory is None else memory.shape[1]
    else:
        memory = None
        length = cache.encoder_keys[0].shape[2] if cache.encoder_keys else 0
    if length != (0 if encoder_mask is None else encoder_mask.shape[1]):
        given = None if encoder_mask is None else encoder_mask.shape
        raise ValueError(f"the encoder has {length} slots, encoder_mask has shape {given}")

    x = run.embed("decoder.embed_tokens", input_ids)
    for index in range(config.num_hidden_layers):
        name = f"decoder.layers.{index}"
        mask = ops.mask.merged(decoder_mask, encoder_mask, input_ids.shape[1], config.window(index))

        def attend(normed: Array, index: int = index, site: str = f"{name}.merged_attn", mask: Array = mask) -> Array:
            q, k, v = _queries_keys_values(run, site, normed, cos, sin)
            if memory is not None:
                _remember_encoder(run, site, memory, encoder_cos, encoder_sin, cache)
            cache.grow(index, k, v)
            return _attention(run, site, q, *_merged_keys_values(run, site, index, cache), mask)

        x = layer(name, partial(_layer, run, name, x, attend))
    return run.linear("logits", run.norm("decoder.norm", x), "lm_head")
