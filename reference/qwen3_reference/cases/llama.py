"""Llama 3 and its plain ancestors: their checkpoints and their cases, as data."""

from __future__ import annotations

from typing import Any

from qwen3_reference.cases.definitions import CaseDefinition
from qwen3_reference.checkpoints.tiny import Definition

_LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 24,
    "intermediate_size": 34,
    "mlp_bias": False,
    "model_type": "llama",
    "num_hidden_layers": 2,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "use_sliding_window": None,
}
# Of the five pairs two are kept, two lie between the bands, one is divided; no number is a published one.
_LLAMA3: dict[str, Any] = {
    **_LLAMA,
    "max_position_embeddings": 1000,
    "rope_scaling": {
        "factor": 3.0,
        "high_freq_factor": 9.0,
        "low_freq_factor": 1.25,
        "original_max_position_embeddings": 256,
        "rope_type": "llama3",
    },
    "rope_theta": 100.0,
    "vocab_size": 67,
}
# As many KV heads as heads, head_dim to be derived, plain RoPE: what Llama was before Llama 3.
_PLAIN: dict[str, Any] = {
    **_LLAMA,
    "head_dim": None,
    "hidden_size": 30,
    "max_position_embeddings": 64,
    "num_attention_heads": 5,
    "num_key_value_heads": 5,
    "rope_theta": 9000.0,
    "tie_word_embeddings": True,
    "vocab_size": 71,
}

LLAMA_DEFINITIONS = (
    Definition("llama3", 1301, 1300, _LLAMA3, stores_head=True),
    Definition("llama-plain", 1311, 1310, _PLAIN),
)
"""Their checkpoints."""

LLAMA_CASES = (
    CaseDefinition(
        "llama/ragged_decode",
        "Llama 3: grouped heads, no QK-norm, no bias, RoPE with bands; padding on either side, then 4 decode steps.",
        51,
        decoder="llama3",
        decoder_rows=("111111111", "110001111", "001111111"),
        steps=(5, 1, 1, 1, 1),
        exposes=("CFG-10", "ROP-09", "POS-09", "KVC-13"),
    ),
    CaseDefinition(
        "llama/beyond_original",
        "Llama 3 across its original length and to its longest, the prompt in chunks of 3.",
        52,
        decoder="llama3",
        decoder_rows=("11111111", "01111111"),
        steps=(3, 3, 1, 1),
        first_position=992,
        exposes=("ROP-09", "ROP-21", "CFG-02"),
    ),
    CaseDefinition(
        "llama/bfloat16",
        "Llama 3 run in bfloat16, at positions above 256.",
        53,
        decoder="llama3",
        decoder_rows=("111111", "011111"),
        steps=(4, 1, 1),
        dtype="bfloat16",
        first_position=300,
        exposes=("NRM-04", "ROP-16", "ROP-17"),
    ),
    CaseDefinition(
        "llama/plain",
        "Llama before Llama 3: as many KV heads as heads, plain RoPE, a head_dim that nobody states, a tied head.",
        54,
        decoder="llama-plain",
        decoder_rows=("1111111", "0111111"),
        steps=(4, 1, 1, 1),
        exposes=("CFG-10", "GQA-04", "HED-01"),
    ),
)
"""The cases llama/*: causal decoders alone."""
