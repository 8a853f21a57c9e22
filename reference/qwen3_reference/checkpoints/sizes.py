"""The configurations of the committed checkpoints, as data: the common sizes and what each family changes."""

from __future__ import annotations

from typing import Any

PAD_ID = 3

SIZES: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 10,
    "hidden_act": "silu",
    "hidden_size": 40,
    "intermediate_size": 70,
    "max_position_embeddings": 65536,
    "model_type": "qwen3",
    "num_attention_heads": 6,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "pad_token_id": PAD_ID,
    "rms_norm_eps": 1e-06,
    "rope_theta": 250000.0,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "use_sliding_window": False,
    "vocab_size": 211,
}
WINDOW: dict[str, Any] = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "rms_norm_eps": 3e-3,
    "rope_parameters": {"rope_theta": 31415.0, "rope_type": "default"},
    "rope_theta": None,
    "sliding_window": 5,
    "tie_word_embeddings": False,
    "use_sliding_window": True,
    "vocab_size": 223,
}
QWEN2: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "attention_bias": None,
    "head_dim": None,
    "hidden_size": 48,
    "intermediate_size": 48,
    "model_type": "qwen2",
    "num_hidden_layers": 2,
    "rope_theta": 5e5,
    "tie_word_embeddings": False,
    "vocab_size": 199,
}
# Narrow: what is told is in the tables. One pair of five is on the ramp; no two ways to come to a number agree.
_STRETCHED: dict[str, Any] = {
    "hidden_size": 22,
    "intermediate_size": 26,
    "max_position_embeddings": 24576,
    "num_hidden_layers": 2,
    "vocab_size": 61,
}
YARN_STATED: dict[str, Any] = {
    **_STRETCHED,
    "rope_theta": 90000.0,
    "rope_scaling": {
        "attention_factor": 1.07,
        "beta_fast": 20.0,
        "beta_slow": 1.5,
        "factor": 8.0,
        "original_max_position_embeddings": 2048,
        "truncate": False,
        "type": "yarn",
    },
}
YARN_MSCALE: dict[str, Any] = {
    **_STRETCHED,
    "rope_parameters": {
        "factor": 5.0,
        "mscale": 0.8,
        "mscale_all_dim": 0.3,
        "original_max_position_embeddings": 4096,
        "rope_theta": 60000.0,
        "rope_type": "yarn",
    },
    "rope_theta": None,
}
# Small, because a gradient is as large as its parameter: two committed gradients for each.
TRAINING_TIED: dict[str, Any] = {
    "head_dim": 4,
    "hidden_size": 12,
    "intermediate_size": 9,
    "num_hidden_layers": 2,
    "rms_norm_eps": 1e-2,
    "rope_theta": 50.0,
    "vocab_size": 37,
}
TRAINING_UNTIED: dict[str, Any] = {
    **TRAINING_TIED,
    "attention_bias": True,
    "hidden_size": 10,
    "layer_types": ["sliding_attention", "full_attention"],
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "rms_norm_eps": 3e-3,
    "sliding_window": 3,
    "tie_word_embeddings": False,
    "use_sliding_window": True,
    "vocab_size": 39,
}
# Small and not tied: a loud tied model repeats itself, this one says many different things.
GENERATION: dict[str, Any] = {
    "head_dim": 4,
    "hidden_size": 12,
    "intermediate_size": 10,
    "layer_types": ["sliding_attention", "full_attention"],
    "num_hidden_layers": 2,
    "rms_norm_eps": 2e-3,
    "rope_theta": 50.0,
    "sliding_window": 3,
    "tie_word_embeddings": False,
    "use_sliding_window": True,
    "vocab_size": 41,
}
# What block formats of quantised weights need: rows of a multiple of 256 numbers, heads of 32.
MULTIPLES_OF_256: dict[str, Any] = {
    "head_dim": 32,
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_attention_heads": 8,
    "num_hidden_layers": 1,
    "vocab_size": 64,
}
# What fused kernels of attention take: heads of 64, rows of a multiple of 16 numbers.
HEAD_DIM_64: dict[str, Any] = {
    "head_dim": 64,
    "hidden_size": 48,
    "intermediate_size": 80,
    "tie_word_embeddings": False,
    "vocab_size": 101,
}
# The window is switched off by use_sliding_window, dropout is for training alone.
BIASED: dict[str, Any] = {
    "attention_bias": True,
    "attention_dropout": 0.1,
    "intermediate_size": 66,
    "max_window_layers": 1,
    "num_hidden_layers": 2,
    "rms_norm_eps": 2e-5,
    "rope_theta": 45000.0,
    "sliding_window": 2,
    "vocab_size": 181,
}
