"""A seeded checkpoint of Qwen3-0.6B's exact shape: what is slow, large or wide there shows at no committed size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from qwen3_golden import Array

VOCABULARY = 151936
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": VOCABULARY,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "attention_bias": False,
    "tie_word_embeddings": True,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
}


def tensors(draw: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Name and float32 values of every tensor: projections that keep the scale, norms away from 1."""

    def normal(*shape: int) -> Array:
        scale = np.float32(shape[-1] ** -0.5)
        return draw.standard_normal(shape, dtype=np.float32) * scale

    def norm(width: int) -> Array:
        return draw.uniform(0.5, 1.5, width).astype(np.float32)

    hidden, wide, heads, kv = 1024, 3072, 16 * 128, 8 * 128
    yield "model.embed_tokens.weight", normal(VOCABULARY, hidden)
    for layer in range(28):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight", norm(hidden)
        for name, rows in (("q", heads), ("k", kv), ("v", kv)):
            yield f"{prefix}.self_attn.{name}_proj.weight", normal(rows, hidden)
        yield f"{prefix}.self_attn.o_proj.weight", normal(hidden, heads)
        yield f"{prefix}.self_attn.q_norm.weight", norm(128)
        yield f"{prefix}.self_attn.k_norm.weight", norm(128)
        yield f"{prefix}.post_attention_layernorm.weight", norm(hidden)
        yield f"{prefix}.mlp.gate_proj.weight", normal(wide, hidden)
        yield f"{prefix}.mlp.up_proj.weight", normal(wide, hidden)
        yield f"{prefix}.mlp.down_proj.weight", normal(hidden, wide)
    yield "model.norm.weight", norm(hidden)


def written(directory: Path, dtype: str) -> Path:
    """A new directory with the checkpoint in it, 2.4 GB in "float32" or 1.2 in "bfloat16"; returns it."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(CONFIG | {"dtype": dtype}))
    drawn = tensors(np.random.Generator(np.random.PCG64(6)))
    narrow = getattr(torch, dtype)
    save_file({name: torch.from_numpy(values).to(narrow) for name, values in drawn}, directory / "model.safetensors")
    return directory
