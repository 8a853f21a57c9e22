"""Where the tensors of a case of one op stand in a network of one layer, op by op (`qwen3_reference.cases.op_case`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from qwen3_golden import Array, pb
from qwen3_parity.blame.op_plan import Plan, config_of

_LAYER = "decoder.layers.0"
_ATTENTION = f"{_LAYER}.merged_attn"


_Arrays = Mapping[str, Array]
_Numbers = Mapping[str, float]


def _swapped(array: Array) -> Array:
    """Heads and positions exchanged."""
    return np.swapaxes(array, 1, 2)


def _rms_norm(arrays: _Arrays, numbers: _Numbers) -> Plan:
    x = arrays["input.x"]
    return Plan(
        {"input.x": f"{_LAYER}.input", "output.y": f"{_LAYER}.input_layernorm"},
        config_of(hidden_size=x.shape[-1], rms_norm_eps=numbers["eps"]),
        weights={"parameter.weight": f"{_LAYER}.input_layernorm.weight"},
        query=x.shape[1],
    )


def _head_norm(arrays: _Arrays, numbers: _Numbers) -> Plan:
    _, query, heads, head_dim = arrays["input.x"].shape
    return Plan(
        {"input.x": f"{_ATTENTION}.q_proj", "output.y": f"{_ATTENTION}.q_norm"},
        config_of(num_attention_heads=heads, head_dim=head_dim, rms_norm_eps=numbers["eps"]),
        weights={"parameter.weight": f"{_ATTENTION}.q_norm.weight"},
        reshaped={"input.x": lambda x: x.reshape(*x.shape[:2], -1)},
        query=query,
    )


def _linear(arrays: _Arrays, numbers: _Numbers) -> Plan:
    x = arrays["input.x"]
    return Plan(
        {"input.x": f"{_LAYER}.input_layernorm", "output.y": f"{_ATTENTION}.v_proj"},
        config_of(hidden_size=x.shape[-1], attention_bias="parameter.bias" in arrays),
        weights={
            "parameter.weight": f"{_ATTENTION}.v_proj.weight",
            "parameter.bias": f"{_ATTENTION}.v_proj.bias",
        },
        query=x.shape[1],
    )


def _embedding(arrays: _Arrays, numbers: _Numbers) -> Plan:
    vocab, hidden = arrays["parameter.weight"].shape
    return Plan(
        {"input.ids": "input.decoder_input_ids", "output.y": "decoder.embed_tokens"},
        config_of(vocab_size=vocab, hidden_size=hidden),
        weights={"parameter.weight": "decoder.embed_tokens.weight"},
        query=arrays["input.ids"].shape[1],
    )


def _inv_freq(arrays: _Arrays, numbers: _Numbers) -> Plan:
    scaling: dict[str, Any] = {name: value for name, value in numbers.items() if name not in ("head_dim", "theta")}
    config = config_of(head_dim=int(numbers["head_dim"]), rope_theta=numbers["theta"])
    if scaling:
        whole = int(scaling.pop("original_max_position_embeddings"))
        config.rope_scaling.CopyFrom(
            pb.RopeScaling(
                rope_type="yarn",
                original_max_position_embeddings=whole,
                truncate=bool(scaling.pop("truncate")),
                **scaling,
            )
        )
    return Plan({"output.inv_freq": "decoder.inv_freq"}, config)


def _rope_table(arrays: _Arrays, numbers: _Numbers) -> Plan:
    config = config_of(head_dim=2 * len(arrays["input.inv_freq"]))
    factor = numbers.get("attention_factor", 1.0)
    if factor != 1:
        config.rope_scaling.CopyFrom(
            pb.RopeScaling(
                rope_type="yarn",
                factor=1,
                attention_factor=factor,
                beta_fast=32,
                beta_slow=1,
                original_max_position_embeddings=config.max_position_embeddings,
            )
        )
    names = {"input.position_ids": "position_ids", "input.inv_freq": "inv_freq"}
    taps = {name: f"decoder.{tap}" for name, tap in names.items()}
    return Plan(
        taps | {"output.cos": "decoder.cos", "output.sin": "decoder.sin"},
        config,
        query=arrays["input.position_ids"].shape[1],
    )


def _rope(arrays: _Arrays, numbers: _Numbers) -> Plan:
    _, heads, query, head_dim = arrays["input.q"].shape
    taps = {"input.q": "q_norm", "input.k": "k_norm", "output.q": "q_rope", "output.k": "k_rope"}
    return Plan(
        {
            "input.cos": "decoder.cos",
            "input.sin": "decoder.sin",
            **{name: f"{_ATTENTION}.{tap}" for name, tap in taps.items()},
        },
        config_of(num_attention_heads=heads, num_key_value_heads=arrays["input.k"].shape[1], head_dim=head_dim),
        reshaped={"input.q": _swapped, "input.k": _swapped},
        query=query,
    )


def _repeat_kv(arrays: _Arrays, numbers: _Numbers) -> Plan:
    batch, kv_heads, keys, head_dim = arrays["input.x"].shape
    heads = arrays["output.y"].shape[1]
    return Plan(
        {"input.x": f"{_ATTENTION}.cache_values", "output.y": f"{_ATTENTION}.context"},
        config_of(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim),
        reshaped={"output.y": _swapped},
        # Repeated values are the context of probabilities that are 1 at a query's own slot and 0 elsewhere.
        implied={f"{_ATTENTION}.probs": np.tile(np.eye(keys, dtype=np.float32), (batch, heads, 1, 1))},
        query=keys,
    )


def _scores(arrays: _Arrays, numbers: _Numbers) -> Plan | None:
    q, k = arrays["input.q"], arrays["input.k"]
    if not math.isclose(numbers["scaling"], q.shape[-1] ** -0.5):
        return None  # every network's is the inverse root of head_dim
    return Plan(
        {
            "input.q": f"{_ATTENTION}.q_rope",
            "input.k": f"{_ATTENTION}.cache_keys",
            "output.scores": f"{_ATTENTION}.scores",
        },
        config_of(num_attention_heads=q.shape[1], num_key_value_heads=k.shape[1], head_dim=q.shape[-1]),
        query=q.shape[2],
        past=k.shape[2] - q.shape[2],
    )


def _softmax(arrays: _Arrays, numbers: _Numbers) -> Plan:
    _, heads, query, keys = arrays["input.scores"].shape
    taps = {"input.scores": "scores", "input.mask": "mask", "output.probs": "probs"}
    return Plan(
        {name: f"{_ATTENTION}.{tap}" for name, tap in taps.items()},
        config_of(num_attention_heads=heads, num_key_value_heads=heads),
        query=query,
        past=keys - query,
    )


def _context(arrays: _Arrays, numbers: _Numbers) -> Plan:
    _, heads, query, keys = arrays["input.probs"].shape
    v = arrays["input.v"]
    taps = {"input.probs": "probs", "input.v": "cache_values", "output.context": "context"}
    return Plan(
        {name: f"{_ATTENTION}.{tap}" for name, tap in taps.items()},
        config_of(num_attention_heads=heads, num_key_value_heads=v.shape[1], head_dim=v.shape[-1]),
        query=query,
        past=keys - query,
    )


def _swiglu(arrays: _Arrays, numbers: _Numbers) -> Plan:
    gate = arrays["input.gate"]
    taps = {"input.gate": "gate_proj", "input.up": "up_proj", "output.act": "act"}
    return Plan(
        {name: f"{_LAYER}.mlp.{tap}" for name, tap in taps.items()},
        config_of(intermediate_size=gate.shape[-1]),
        query=gate.shape[1],
    )


def _mask(arrays: _Arrays, numbers: _Numbers) -> Plan:
    query, window = int(numbers["query"]), int(numbers["window"])
    kind = "sliding_attention" if window else "full_attention"
    decoder_mask = arrays.get("input.decoder_attention_mask")
    both = decoder_mask is not None and "input.encoder_attention_mask" in arrays
    output = "encoder.layers.0.self_attn.mask" if decoder_mask is None else f"{_ATTENTION}.mask"
    inputs = ("input.encoder_attention_mask", "input.decoder_attention_mask")
    return Plan(
        {"output.mask": output} | {name: name for name in inputs},
        config_of(layer_types=[kind], sliding_window=window),
        query=query,
        past=0 if decoder_mask is None else decoder_mask.shape[1] - query,
        mode=pb.ENCODER if decoder_mask is None else pb.ENCODER_DECODER if both else pb.CAUSAL,
    )


def _next_token_probs(arrays: _Arrays, numbers: _Numbers) -> Plan:
    rows, ids = arrays["input.ids"].shape
    filters = ("repetition_penalty", "temperature", "top_p", "min_p")
    settings: dict[str, Any] = {name: numbers[name] for name in filters}
    return Plan(
        {"input.logits": "logits", "input.ids": "input.decoder_input_ids", "output.probs": "next_token_probs"},
        config_of(vocab_size=arrays["input.logits"].shape[-1]),
        reshaped={"input.logits": lambda logits: logits[:, None]},
        implied={"input.decoder_attention_mask": np.ones((rows, ids), bool)},
        query=ids,
        generation=pb.Generation(
            strategy="sample",
            prompt_length=ids,
            top_k=int(numbers["top_k"]),
            **settings,
        ),
    )


PLANS: Mapping[str, Callable[[_Arrays, _Numbers], Plan | None]] = {
    "rms_norm": _rms_norm,
    "head_norm": _head_norm,
    "linear": _linear,
    "embedding": _embedding,
    "inv_freq": _inv_freq,
    "rope_table": _rope_table,
    "rope": _rope,
    "repeat_kv": _repeat_kv,
    "scores": _scores,
    "softmax": _softmax,
    "context": _context,
    "swiglu": _swiglu,
    "mask": _mask,
    "next_token_probs": _next_token_probs,
}
"""By `case.op`. They raise what a golden of somebody's own makes them raise: `KeyError`, `ValueError`, …"""
