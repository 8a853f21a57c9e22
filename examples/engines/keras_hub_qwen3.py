"""keras-hub's Qwen3CausalLM on jax as a candidate, its cache in use: attention is one kernel, RoPE is a layer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from keras_hub.models import Qwen3Backbone, Qwen3CausalLM
from shared import ROTATED, Taken, causal_runner, layer_name

PACKAGE, HAS = "keras-hub", {"qk_norm", "window"}


def lacks(case: Any) -> list[str]:
    """What its one window for all layers cannot be."""
    return ["layers with and without a window"] if len(set(case.config.layer_types)) > 1 else []


LAYER = {
    "_self_attention_layernorm": ("input", ["input_layernorm"]),
    "_self_attention_layer._query_dense": ("", ["merged_attn.q_proj"]),
    "_self_attention_layer._query_dense_layer_norm": ("", ["merged_attn.q_norm"]),
    "_self_attention_layer._key_dense": ("", ["merged_attn.k_proj"]),
    "_self_attention_layer._key_dense_layer_norm": ("", ["merged_attn.k_norm"]),
    "_self_attention_layer.rotary_embedding_layer": ("", ["merged_attn.q_rope", "merged_attn.k_rope"]),
    "_self_attention_layer._value_dense": ("", ["merged_attn.v_proj"]),
    "_self_attention_layer._output_dense": ("merged_attn.context", ["merged_attn.o_proj"]),
    "_feedforward_layernorm": ("attn_residual", ["post_attention_layernorm"]),
    "_feedforward_gate_dense": ("", ["mlp.gate_proj"]),
    "_feedforward_intermediate_dense": ("", ["mlp.up_proj"]),
    "_feedforward_output_dense": ("mlp.act", ["mlp.down_proj"]),
}
"""A layer's layers, the tap that goes in and those that come out, call by call."""


def watch(layer: keras.Layer, taken: Taken, before: str, after: list[str]) -> None:
    """Append what goes into a Keras layer and what comes out under the next name; not what `reverse` turns around."""
    call, names = layer.call, cycle(after)

    def watched(x: Any, *rest: Any, **options: Any) -> Any:
        result = call(x, *rest, **options)
        if not options.get("reverse"):
            taken.extend([(before, x), (next(names), result[0] if isinstance(result, tuple) else result)])
        return result

    layer.call = watched


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner on the decoder's checkpoint, read by keras-hub's own converter."""
    c, taken = case.config, Taken()
    keras.utils.set_random_seed(0)
    backbone = Qwen3Backbone.from_preset(str(checkpoints["decoder"]), dtype="float32")
    model = Qwen3CausalLM(backbone)
    for index, layer in enumerate(backbone.transformer_layers):
        for path, (before, after) in LAYER.items():
            owner = layer
            for name in path.split("."):
                owner = getattr(owner, name)
            watch(owner, taken, before and layer_name(index, before), [layer_name(index, one) for one in after])
        watch(layer, taken, "", [layer_name(index, "output")])
    watch(backbone.token_embedding, taken, "", ["decoder.embed_tokens"])
    watch(backbone.layer_norm, taken, "", ["decoder.norm"])
    cache: Any = None

    def forward(ids: Any, now: slice) -> Any:
        nonlocal cache
        if now.start == 0:
            shape = (len(ids), c.num_hidden_layers, 2, sum(case.steps), c.num_key_value_heads, c.head_dim)
            cache = keras.ops.zeros(shape, "float32")
        logits, _, cache = model.call_with_cache(np.ascontiguousarray(ids[:, now], np.int32), cache, now.start)
        return logits

    return causal_runner("keras-hub", taken, forward, ROTATED, heads_first=())
