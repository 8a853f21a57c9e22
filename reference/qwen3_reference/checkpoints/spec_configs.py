"""The numbers of a recorded network as the specification takes them; nothing here needs Hugging Face."""

from __future__ import annotations

from qwen3_golden import pb
from qwen3_reference.checkpoints.classic_configs import classic_spec_config
from qwen3_spec import RopeScaling, SpecConfig
from qwen3_spec.rope_scaling import KINDS

_ACTIVATIONS = {"silu": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


def spec_config(config: pb.ModelConfig) -> SpecConfig:
    """A network's numbers for the specification; `ValueError` or `KeyError` when no network can have them."""
    if config.HasField("classic_encoder"):
        return classic_spec_config(config)
    return SpecConfig(
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        vocab_size=config.vocab_size,
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=config.rope_theta,
        hidden_act=_ACTIVATIONS[config.hidden_act],
        attention_bias=config.attention_bias,
        attention_out_bias=config.attention_out_bias,
        use_qk_norm=config.use_qk_norm,
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
