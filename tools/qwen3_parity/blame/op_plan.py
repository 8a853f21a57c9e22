"""A network of one layer for a case of one op: which taps its tensors are, and the numbers of the network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qwen3_golden import Array, pb
from qwen3_golden.op_table import OP_TABLE

_ATTENTION = "decoder.layers.0.merged_attn"
_TAPS = {
    "rms_norm": "@.input @.input_layernorm.weight @.input_layernorm",
    "head_norm": "@.merged_attn.q_proj @.merged_attn.q_norm.weight @.merged_attn.q_norm",
    "linear": "@.input_layernorm @.merged_attn.v_proj.weight @.merged_attn.v_proj.bias @.merged_attn.v_proj",
    "embedding": "input.decoder_input_ids decoder.embed_tokens.weight decoder.embed_tokens",
    "inv_freq": "decoder.inv_freq",
    "rope_table": "decoder.position_ids decoder.inv_freq decoder.cos decoder.sin",
    "rope": "@.merged_attn.q_norm @.merged_attn.k_norm decoder.cos decoder.sin "
    "@.merged_attn.q_rope @.merged_attn.k_rope",
    "repeat_kv": "@.merged_attn.cache_values @.merged_attn.context",
    "scores": "@.merged_attn.q_rope @.merged_attn.cache_keys @.merged_attn.scores",
    "softmax": "@.merged_attn.scores @.merged_attn.mask @.merged_attn.probs",
    "context": "@.merged_attn.probs @.merged_attn.cache_values @.merged_attn.context",
    "swiglu": "@.mlp.gate_proj @.mlp.up_proj @.mlp.act",
    "mask": "input.encoder_attention_mask input.decoder_attention_mask @.merged_attn.mask",
    "next_token_probs": "logits input.decoder_input_ids next_token_probs",
}
"""Of each op's operands and outputs, in the order of its row in `OP_TABLE`; `@` is the layer."""
_FIELDS = {
    "in": "hidden_size",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "vocab": "vocab_size",
    "head_dim": "head_dim",
    "intermediate": "intermediate_size",
}
"""The network's number that the length of an axis is."""


@dataclass(frozen=True)
class Plan:
    """Where an op's tensors stand in a network. `taps` by their names in the case, `weights` likewise.

    `config` has the network's numbers. `implied` is what stands in the network though the case does not have it. `past`
    slots are there before the step of `query`.
    """

    taps: Mapping[str, str]
    weights: Mapping[str, str]
    config: pb.ModelConfig
    query: int
    past: int
    implied: Mapping[str, Array] = field(default_factory=dict)
    mode: pb.Mode = pb.CAUSAL
    generation: pb.Generation | None = None


def plan_of(op: str, arrays: Mapping[str, Array], attributes: Mapping[str, float]) -> Plan | None:
    """The network of a case of `op`; None for an op, or numbers, that no tap is made by.

    Raises `KeyError` or `ValueError` for a case that lacks what its row in `OP_TABLE` has, or has other axes.
    """
    row = OP_TABLE.get(op)
    if row is None:
        return None
    numbers, sizes = row.numbers(attributes), row.sizes(arrays)
    names = dict(zip(row.tensors, _TAPS[op].replace("@", "decoder.layers.0").split(), strict=True))
    config: dict[str, Any] = {_FIELDS[axis]: size for axis, size in sizes.items() if axis in _FIELDS}
    query = sizes.get("query", sizes.get("key", sizes.get("slot", 1)))
    more: dict[str, Any] = {"query": query, "past": sizes.get("slot", sizes.get("key", query)) - query}
    match op:
        case "rms_norm" | "head_norm":
            config["rms_norm_eps"] = numbers["eps"]
        case "linear":
            config["attention_bias"] = "parameter.bias" in arrays
        case "inv_freq":
            config |= {"head_dim": numbers.pop("head_dim"), "rope_theta": numbers.pop("theta")}
            config |= {"rope_scaling": pb.RopeScaling(rope_type="yarn", **numbers)} if numbers else {}
        case "rope_table" if (factor := numbers.get("attention_factor", 1.0)) != 1:
            config["rope_scaling"] = pb.RopeScaling(
                rope_type="yarn",
                factor=1,
                attention_factor=factor,
                beta_fast=32,
                beta_slow=1,
                original_max_position_embeddings=_POSITIONS,
            )
        case "repeat_kv":
            # Repeated values are the context of probabilities that are 1 at a query's own slot and 0 elsewhere.
            eye = np.tile(np.eye(query, dtype=np.float32), (sizes["batch"], sizes["heads"], 1, 1))
            more["implied"] = {f"{_ATTENTION}.probs": eye}
        case "scores" if not math.isclose(numbers["scaling"], sizes["head_dim"] ** -0.5):
            return None  # every network's is the inverse root of head_dim
        case "softmax":
            config["num_key_value_heads"] = sizes["heads"]
        case "mask":
            window, causal = numbers["window"], "slot" in sizes
            config |= {"layer_types": ["sliding_attention" if window else "full_attention"], "sliding_window": window}
            more["mode"] = pb.ENCODER if not causal else pb.ENCODER_DECODER if "source" in sizes else pb.CAUSAL
            names["output.mask"] = f"{_ATTENTION}.mask" if causal else "encoder.layers.0.self_attn.mask"
        case "next_token_probs":
            more["implied"] = {"input.decoder_attention_mask": np.ones((sizes["batch"], query), bool)}
            more["generation"] = pb.Generation(strategy="sample", prompt_length=query, **numbers)
    weights = {name: names.pop(name) for name in tuple(names) if name.startswith("parameter.")}
    return Plan(names, weights, _config(**config), **more)


def laid_out(array: Array, axes: Sequence[str], tap_axes: Sequence[str]) -> Array:
    """A tensor of a case as its tap has it: heads as channels, before positions or behind them; its one query."""
    if "channel" in tap_axes:
        return array.reshape(*array.shape[:2], math.prod(array.shape[2:]))
    if "query" in tap_axes and not {"query", "key", "slot"} & set(axes):
        return array[:, None]
    exchanged = "head_dim" in axes and axes[1].endswith("heads") != tap_axes[1].endswith("heads")
    return np.swapaxes(array, 1, 2) if exchanged else array


_POSITIONS = 1 << 17


def _config(**numbers: Any) -> pb.ModelConfig:
    """The numbers of a network of one layer; what the op does not say follows from its heads, or is a usual number."""
    heads, head_dim = int(numbers.get("num_attention_heads", 1)), int(numbers.get("head_dim", 2))
    every: dict[str, Any] = {
        "model_type": "qwen3",
        "vocab_size": 2,
        "hidden_size": heads * head_dim,
        "intermediate_size": heads * head_dim,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": 1,
        "head_dim": head_dim,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "max_position_embeddings": _POSITIONS,
        "hidden_act": "silu",
        "use_qk_norm": True,
        "layer_types": ["full_attention"],
    }
    return pb.ModelConfig(**(every | numbers))
