"""The tensors of a Qwen checkpoint: Hugging Face's names, and what each of their dimensions counts."""

from __future__ import annotations

from qwen3_golden import golden_pb2 as pb

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


def axis_sizes(config: pb.ModelConfig) -> dict[str, int]:
    """How much each axis of a weight counts: "q_channel" is heads × head_dim, "kv_channel" kv heads × head_dim."""
    return {
        "vocab": config.vocab_size,
        "hidden": config.hidden_size,
        "intermediate": config.intermediate_size,
        "q_channel": config.num_attention_heads * config.head_dim,
        "kv_channel": config.num_key_value_heads * config.head_dim,
        "head_dim": config.head_dim,
    }


def weight_axes(config: pb.ModelConfig) -> dict[str, tuple[str, ...]]:
    """Name -> axes of every tensor that a checkpoint can have, in network order; linear weights are [out, in].

    The head is among them also where it is tied, and may be left out there.
    """
    axes: dict[str, tuple[str, ...]] = {EMBEDDING: ("vocab", "hidden")}
    for index in range(config.num_hidden_layers):
        layer = f"model.layers.{index}"
        axes[f"{layer}.input_layernorm.weight"] = ("hidden",)
        for name, out in (("q", "q_channel"), ("k", "kv_channel"), ("v", "kv_channel")):
            axes[f"{layer}.self_attn.{name}_proj.weight"] = (out, "hidden")
            if config.attention_bias:
                axes[f"{layer}.self_attn.{name}_proj.bias"] = (out,)
        axes[f"{layer}.self_attn.o_proj.weight"] = ("hidden", "q_channel")
        if config.attention_out_bias:
            axes[f"{layer}.self_attn.o_proj.bias"] = ("hidden",)
        if config.use_qk_norm:
            axes[f"{layer}.self_attn.q_norm.weight"] = ("head_dim",)
            axes[f"{layer}.self_attn.k_norm.weight"] = ("head_dim",)
        axes[f"{layer}.post_attention_layernorm.weight"] = ("hidden",)
        axes[f"{layer}.mlp.gate_proj.weight"] = ("intermediate", "hidden")
        axes[f"{layer}.mlp.up_proj.weight"] = ("intermediate", "hidden")
        axes[f"{layer}.mlp.down_proj.weight"] = ("hidden", "intermediate")
    axes["model.norm.weight"] = ("hidden",)
    axes[HEAD] = ("vocab", "hidden")
    return axes
