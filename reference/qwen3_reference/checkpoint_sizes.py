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
