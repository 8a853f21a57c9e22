"""The classic Transformer encoder, built from `ops` and `classic_ops`: pre-norm and post-norm, learned positions.

Taps and parameters are named as in `model`; the two forms are two networks, `pre_norm.` and `post_norm.`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qwen3_spec import ops
from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.classic_config import ClassicConfig
from qwen3_spec.model import Tap

Weights = Mapping[str, Array]


@dataclass(frozen=True)
class _Run:
    """One run's constants, and the ops that have parameters: each records its output under its own name."""

    weights: Weights
    config: ClassicConfig
    tap: Tap
    arithmetic: Arithmetic

    def record(self, name: str, value: Array) -> Array:
        """Hand `value` to the tap and pass it on."""
        self.tap(name, value)
        return value

    def norm(self, name: str, x: Array) -> Array:
        """LayerNorm over the last axis."""
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        eps = self.config.layer_norm_eps
        return self.record(name, ops.layer_norm.forward(x, weight, bias, eps, arithmetic=self.arithmetic))

    def linear(self, name: str, x: Array) -> Array:
        """A projection with its bias."""
        weight, bias = self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        return self.record(name, ops.linear.forward(x, weight, bias, arithmetic=self.arithmetic))

    def add(self, name: str, stream: Array, branch: Array) -> Array:
        """A residual sum."""
        return self.record(name, ops.residual.forward(stream, branch, arithmetic=self.arithmetic))


def _attention(run: _Run, site: str, x: Array, mask: Array) -> Array:
    """Self-attention by a fused projection, `[batch, seq, hidden]` in and out."""
    config, exact = run.config, run.arithmetic
    qkv = run.linear(f"{site}.qkv_proj", x)
    q, k, v = (
        run.record(f"{site}.{part}", ops.split_heads.forward(qkv, part, config.num_attention_heads, arithmetic=exact))
        for part in ops.split_heads.PARTS
    )
    run.record(f"{site}.mask", mask)
    scores = run.record(f"{site}.scores", ops.scores.forward(q, k, config.head_dim**-0.5, arithmetic=exact))
    probs = run.record(f"{site}.probs", ops.softmax.forward(scores, mask, arithmetic=exact))
    context = run.record(f"{site}.context", ops.context.forward(probs, v, arithmetic=exact))
    return run.linear(f"{site}.out_proj", context.reshape(*context.shape[:2], -1))


def _feed_forward(run: _Run, site: str, x: Array) -> Array:
    """`linear2(act(linear1(x)))`, `[batch, seq, hidden]` in and out."""
    inner = run.linear(f"{site}.linear1", x)
    act = ops.activation.forward(inner, run.config.hidden_act, arithmetic=run.arithmetic)
    return run.linear(f"{site}.linear2", run.record(f"{site}.act", act))


def _pre_norm_layer(run: _Run, name: str, x: Array, mask: Array) -> Array:
    branch = _attention(run, f"{name}.self_attn", run.norm(f"{name}.norm1", x), mask)
    x = run.add(f"{name}.attn_residual", x, branch)
    branch = _feed_forward(run, f"{name}.feed_forward", run.norm(f"{name}.norm2", x))
    return run.add(f"{name}.output", x, branch)


def _post_norm_layer(run: _Run, name: str, x: Array, mask: Array) -> Array:
    branch = _attention(run, f"{name}.self_attn", x, mask)
    x = run.norm(f"{name}.norm1", run.add(f"{name}.attn_residual", x, branch))
    branch = _feed_forward(run, f"{name}.feed_forward", x)
    x = run.norm(f"{name}.norm2", run.add(f"{name}.ff_residual", x, branch))
    return run.record(f"{name}.output", x)


def _embeddings(run: _Run, network: str, input_ids: Array, position_ids: Array) -> Array:
    tokens, positions = (
        run.record(
            f"{network}.{name}",
            ops.embedding.forward(ids, run.weights[f"{network}.{name}.weight"], arithmetic=run.arithmetic),
        )
        for name, ids in (("embed_tokens", input_ids), ("embed_positions", position_ids))
    )
    total = ops.scaled_sum.forward(tokens, positions, run.config.embedding_scale, arithmetic=run.arithmetic)
    return run.record(f"{network}.embeddings", total)


def classic_encoder(
    weights: Weights,
    config: ClassicConfig,
    attention_mask: Array,
    tap: Tap,
    arithmetic: Arithmetic = FLOAT64,
    *,
    input_ids: Array | None = None,
    position_ids: Array | None = None,
    hidden_states: Array | None = None,
) -> Array:
    """The whole stack -> `[batch, seq, hidden]`, behind the last LayerNorm.

    `attention_mask[batch, seq]` nonzero = real token. A network that starts with hidden states is given those,
    `[batch, seq, hidden]`, every other one `input_ids` and `position_ids` `[batch, seq]`. Source: torch
    `TransformerEncoder`, HF `BertEncoder`. Raises `ValueError` when what it starts with is missing.
    """
    network = "pre_norm" if config.norm_first else "post_norm"
    run = _Run(weights, config, tap, arithmetic)
    if config.starts_with_hidden_states:
        if hidden_states is None:
            raise ValueError("starts_with_hidden_states is set: hidden_states are needed")
        x = arithmetic.cast(hidden_states)
    else:
        if input_ids is None or position_ids is None:
            raise ValueError("the network has embeddings: input_ids and position_ids are needed")
        x = _embeddings(run, network, input_ids, position_ids)
    mask = ops.mask.encoder_mask(attention_mask, None)
    layer = _pre_norm_layer if config.norm_first else _post_norm_layer
    for index in range(config.num_hidden_layers):
        name = f"{network}.layers.{index}"
        x = layer(run, name, run.record(f"{name}.input", x), np.asarray(mask))
    return run.norm("pre_norm.norm", x) if config.norm_first else run.record("post_norm.last_hidden_state", x)
