"""Hugging Face's `BertEncoder` as the reference of the post-norm form: from hidden states on, eager attention."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertEncoder

from qwen3_golden import Array, pb
from qwen3_reference.capture.classic_torch import Taps
from qwen3_reference.capture.softmax_check import additive

_MODULES = {
    "self_attn.out_proj": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "feed_forward.linear1": "intermediate.dense",
    "feed_forward.linear2": "output.dense",
    "norm2": "output.LayerNorm",
}
"""Modules of a layer by their canonical names; q, k and v, which are fused there, are three here."""


def build(config: pb.ModelConfig, weights: Mapping[str, Array]) -> Any:
    """HF's stack with the weights of a checkpoint, in evaluation mode."""
    numbers: dict[str, Any] = {
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "intermediate_size": config.intermediate_size,
        "hidden_act": config.hidden_act,
        "layer_norm_eps": config.classic_encoder.layer_norm_eps,
        "attn_implementation": "eager",
    }
    bert: nn.Module = BertEncoder(BertConfig(**numbers))  # type: ignore[no-untyped-call]
    state: dict[str, torch.Tensor] = {}
    for index in range(config.num_hidden_layers):
        for part in ("weight", "bias"):
            own, theirs = f"post_norm.layers.{index}", f"layer.{index}"
            fused = torch.from_numpy(np.array(weights[f"{own}.self_attn.qkv_proj.{part}"]))
            for name, third in zip(("query", "key", "value"), fused.chunk(3), strict=True):
                state[f"{theirs}.attention.self.{name}.{part}"] = third
            for name, module in _MODULES.items():
                state[f"{theirs}.{module}.{part}"] = torch.from_numpy(np.array(weights[f"{own}.{name}.{part}"]))
    bert.load_state_dict(state)
    return bert.train(mode=False)


def _attention(taps: Taps, site: str, module: Any, projected: Mapping[str, torch.Tensor], output: Any) -> None:
    """The taps inside of HF's attention: heads are split and scored by its own formula."""
    context, probs = output
    batch, heads, query, _ = probs.shape
    taps[f"{site}.qkv_proj"] = torch.cat([projected[one] for one in ("query", "key", "value")], dim=-1)
    for name, one in (("q", "query"), ("k", "key"), ("v", "value")):
        taps[f"{site}.{name}"] = projected[one].view(batch, query, heads, -1).transpose(1, 2)
    q, k = taps[f"{site}.q"], taps[f"{site}.k"]
    taps[f"{site}.scores"] = torch.matmul(q, k.transpose(2, 3)) * module.scaling
    taps[f"{site}.probs"] = probs
    taps[f"{site}.context"] = context.view(batch, query, heads, -1)


def _hook_layer(undo: ExitStack, layer: Any, name: str, taps: Taps) -> None:
    """Record one layer of the stack, `name` its tap prefix."""
    projected: dict[str, torch.Tensor] = {}

    def output(module: nn.Module, name: str, into: dict[str, torch.Tensor] = taps) -> None:
        undo.callback(module.register_forward_hook(lambda _m, _a, y: into.__setitem__(name, y)).remove)

    def given(module: nn.Module, name: str) -> None:
        undo.callback(module.register_forward_pre_hook(lambda _m, args: taps.__setitem__(name, args[0])).remove)

    own = layer.attention.self
    given(layer, f"{name}.input")
    for one in ("query", "key", "value"):
        output(getattr(own, one), one, projected)
    hook = own.register_forward_hook(lambda m, _a, y: _attention(taps, f"{name}.self_attn", m, projected, y))
    undo.callback(hook.remove)
    for tap, module in _MODULES.items():
        output(layer.get_submodule(module), f"{name}.{tap}")
    given(layer.attention.output.LayerNorm, f"{name}.attn_residual")
    output(layer.intermediate, f"{name}.feed_forward.act")
    given(layer.output.LayerNorm, f"{name}.ff_residual")
    output(layer, f"{name}.output")


def run_bert(config: pb.ModelConfig, weights: Mapping[str, Array], inputs: Mapping[str, Array]) -> Taps:
    """Every tap of a case that starts with hidden states, by name."""
    stack, taps = build(config, weights), Taps()
    hidden = torch.from_numpy(np.array(inputs["input.hidden_states"]))
    real = torch.from_numpy(np.array(inputs["input.encoder_attention_mask"]))
    with torch.no_grad(), ExitStack() as undo:
        for index, layer in enumerate(stack.layer):
            _hook_layer(undo, layer, f"post_norm.layers.{index}", taps)
        output = stack(hidden, attention_mask=additive(real[:, None, None], hidden.dtype))
    for index in range(config.num_hidden_layers):
        taps[f"post_norm.layers.{index}.self_attn.mask"] = real[:, None].expand(-1, real.shape[1], -1)
    taps["post_norm.last_hidden_state"] = output.last_hidden_state
    return taps
