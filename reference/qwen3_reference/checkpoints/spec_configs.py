"""The numbers of a recorded network as the specification takes them; nothing here needs Hugging Face."""

from __future__ import annotations

from typing import Any

from qwen3_golden import pb
from qwen3_spec import RopeScaling, SpecConfig
from qwen3_spec.classic_config import ClassicConfig
from qwen3_spec.rope_scaling import KINDS

_ACTIVATIONS = {"silu": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
_OF_ANY = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("head_dim", "vocab_size", "rms_norm_eps", "rope_theta", "attention_bias", "attention_out_bias", "use_qk_norm"),
)
"""Numbers that every network has under one name on both sides; a classic encoder leaves some of them unset."""
_OF_CLASSIC = ("norm_first", "layer_norm_eps", "scale_embeddings", "starts_with_hidden_states")


def spec_config(config: pb.ModelConfig) -> SpecConfig:
    """A network's numbers for the specification; `ValueError` or `KeyError` when no network can have them."""
    numbers: dict[str, Any] = {name: getattr(config, name) for name in _OF_ANY}
    numbers["hidden_act"] = _ACTIVATIONS[config.hidden_act]
    if config.HasField("classic_encoder"):
        return ClassicConfig(**numbers, **{name: getattr(config.classic_encoder, name) for name in _OF_CLASSIC})
    return SpecConfig(
        **numbers,
        layer_types=tuple(config.layer_types),
        sliding_window=config.sliding_window or None,
        rotate_encoder_keys=config.rotate_encoder_keys,
        tie_word_embeddings=config.tie_word_embeddings,
        rope_scaling=spec_scaling(config.rope_scaling) if config.HasField("rope_scaling") else None,
    )


def spec_scaling(scaling: pb.RopeScaling) -> RopeScaling:
    """The numbers of a RoPE scaling for the specification; `ValueError` naming an impossible one."""
    kind = KINDS.get(scaling.rope_type)
    if kind is None:
        raise ValueError(f"rope_type {scaling.rope_type!r} is not one of {tuple(KINDS)}")
    return RopeScaling(scaling.rope_type, **{name: getattr(scaling, name) for name in kind.names})
