"""Hugging Face's `BertEncoder` as the reference of the post-norm form: from hidden states on, eager attention."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertEncoder, eager_attention_forward

from qwen3_golden import Array, pb
from qwen3_reference.binding import attach, emit
from qwen3_reference.capture.recorded_attention import recording_attention
from qwen3_reference.capture.softmax_check import additive

_ATTENTION = "recording_bert_eager"
recording_attention(_ATTENTION, eager_attention_forward)

_PARTS = {
    "self_attn.out_proj": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "feed_forward.linear1": "intermediate.dense",
    "feed_forward.linear2": "output.dense",
    "norm2": "output.LayerNorm",
}
"""Modules of a layer by their canonical names; q, k and v, which are fused there, are three here."""

_MODULES = {"layers.{layer}": "layer.{layer}", "layers.{layer}.self_attn": "layer.{layer}.attention.self"} | {
    f"layers.{{layer}}.{name.removeprefix('feed_forward.')}": f"layer.{{layer}}.{module}"
    for name, module in _PARTS.items()
}


def build(config: pb.ModelConfig, weights: Mapping[str, Array]) -> Any:
    """HF's stack with the weights of a checkpoint, in evaluation mode."""
    numbers: dict[str, Any] = {
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "intermediate_size": config.intermediate_size,
        "hidden_act": config.hidden_act,
        "layer_norm_eps": config.classic_encoder.layer_norm_eps,
        "attn_implementation": _ATTENTION,
    }
    bert: nn.Module = BertEncoder(BertConfig(**numbers))  # type: ignore[no-untyped-call]
    state: dict[str, torch.Tensor] = {}
    for index in range(config.num_hidden_layers):
        for part in ("weight", "bias"):
            ours, theirs = f"post_norm.layers.{index}", f"layer.{index}"
            fused = torch.from_numpy(np.array(weights[f"{ours}.self_attn.qkv_proj.{part}"]))
            for name, third in zip(("query", "key", "value"), fused.chunk(3), strict=True):
                state[f"{theirs}.attention.self.{name}.{part}"] = third
            for name, module in _PARTS.items():
                state[f"{theirs}.{module}.{part}"] = torch.from_numpy(np.array(weights[f"{ours}.{name}.{part}"]))
    bert.load_state_dict(state)
    return bert.train(mode=False)


def _fuse(attention: Any, undo: ExitStack) -> None:
    """Hand over the three projections as the one that the network has."""
    three = (attention.query, attention.key, attention.value)
    done: dict[nn.Module, torch.Tensor] = {}

    def keep(module: nn.Module, _args: Any, projected: torch.Tensor) -> None:
        done[module] = projected
        if len(done) == len(three):
            emit(attention, "qkv_proj", torch.cat([done.pop(projection) for projection in three], dim=-1))

    for projection in three:
        undo.callback(projection.register_forward_hook(keep).remove)


def run_bert(
    config: pb.ModelConfig, weights: Mapping[str, Array], inputs: Mapping[str, Array]
) -> dict[str, torch.Tensor]:
    """Every tap of a case that starts with hidden states, by name."""
    stack, taps = build(config, weights), dict[str, torch.Tensor]()
    hidden = torch.from_numpy(np.array(inputs["input.hidden_states"]))
    real = torch.from_numpy(np.array(inputs["input.encoder_attention_mask"]))
    with torch.no_grad(), attach(stack, "post_norm", taps.__setitem__, modules=_MODULES), ExitStack() as undo:
        for layer in stack.layer:
            _fuse(layer.attention.self, undo)
        stack(hidden, attention_mask=additive(real[:, None, None], hidden.dtype))
    return taps
