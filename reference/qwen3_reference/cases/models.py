"""Cases of models that transformers' own code describes, as data: their small checkpoints, each drawn once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ModelCase:
    """One case, and how its checkpoint was drawn: a family, numbers in the place of its usual ones, a dtype, a seed.

    `around` are the attributes of what stands around the model; then it reads rows of `lengths` tokens, padded on the
    side `padding`. `soft` multiplies the weights of the head: scores of 0 and 1 say nothing.
    """

    name: str
    description: str
    seed: int
    checkpoint: str
    family: str
    config: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    around: Mapping[str, float] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    padding: str = "left"
    soft: float = 1.0


_SIZES: Mapping[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "rms_norm_eps": 3e-5,
    "rope_parameters": {"rope_theta": 7000.0, "rope_type": "default"},
}
"""No number is a family's default, or whoever does not read it from the configuration would not be found out."""
# 11 and more, or names of experts sorted as text, 0, 1, 10, 2, are in the right order, too.
_EXPERTS: Mapping[str, Any] = {**_SIZES, "num_experts": 11, "num_experts_per_tok": 3, "moe_intermediate_size": 8}
_SHARED: Mapping[str, Any] = {**_EXPERTS, "shared_expert_intermediate_size": 10}
_QWEN3_MOE: Mapping[str, Any] = {**_EXPERTS, "num_local_experts": 11}  # the same number by its other name
# Half of eight channels turn: of two alone, halves and neighbours are the same pair.
_DELTA: Mapping[str, Any] = {
    "head_dim": 8,
    "linear_key_head_dim": 5,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_value_head_dim": 4,
    "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 7000.0, "rope_type": "default"},
}
# Of two frequencies one is kept, the other divided in part.
_YARN: Mapping[str, Any] = {
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "factor": 8.0,
    "original_max_position_embeddings": 4096,
    "rope_theta": 9000.0,
    "rope_type": "yarn",
    "truncate": False,
}
_TWO_BASES: Mapping[str, Any] = {
    "full_attention": {"factor": 4.0, "rope_theta": 70000.0, "rope_type": "linear"},
    "sliding_attention": {"rope_theta": 7000.0, "rope_type": "default"},
}
# Three tokens: of two, the last one and the one behind the first are the same. Every position is paid for by all taps.
_POOLED: Mapping[str, Any] = {
    "config": {**_SIZES, "hidden_size": 14, "intermediate_size": 10},
    "lengths": (3, 2, 3, 1, 2, 3, 1, 3),
    "soft": 0.3,
}

MODEL_CASES = (
    ModelCase(
        "model/qwen3_moe",
        "Qwen3-MoE: the weights of 3 of 11 experts add up to 1.",
        3001,
        "qwen3-moe",
        "qwen3_moe",
        {**_QWEN3_MOE, "norm_topk_prob": True},
    ),
    ModelCase(
        "model/qwen3_moe_dense_layers",
        "Qwen3-MoE whose experts' weights stay as the softmax has them; of four layers only the last has experts: two "
        "are dense by decoder_sparse_step, one by mlp_only_layers.",
        3002,
        "qwen3-moe-dense-layers",
        "qwen3_moe",
        {
            **_QWEN3_MOE,
            "decoder_sparse_step": 2,
            "mlp_only_layers": [1],
            "norm_topk_prob": False,
            "num_hidden_layers": 4,
        },
    ),
    ModelCase(
        "model/qwen3_moe_bfloat16",
        "Qwen3-MoE in bfloat16.",
        3003,
        "qwen3-moe-bfloat16",
        "qwen3_moe",
        {**_QWEN3_MOE, "norm_topk_prob": True},
        dtype="bfloat16",
    ),
    ModelCase(
        "model/qwen3_next",
        "Qwen3-Next: gated delta rule and gated attention, experts beside a shared one; states from step to step.",
        3004,
        "qwen3-next",
        "qwen3_next",
        {**_SHARED, **_DELTA},
    ),
    ModelCase(
        "model/qwen3_5",
        "Qwen3.5's text stack: gated delta rule and gated attention, dense.",
        3005,
        "qwen3.5",
        "qwen3_5_text",
        {**_SIZES, **_DELTA},
    ),
    ModelCase(
        "model/qwen3_5_moe",
        "Qwen3.5's text stack with experts.",
        3006,
        "qwen3.5-moe",
        "qwen3_5_moe_text",
        {**_SHARED, **_DELTA},
    ),
    ModelCase(
        "model/gpt_oss",
        "gpt-oss: sinks, biased experts with a clamped activation, every other layer behind a window, YaRN.",
        3007,
        "gpt-oss",
        "gpt_oss",
        {
            **_SIZES,
            "intermediate_size": 8,
            "num_local_experts": 11,
            "rope_parameters": _YARN,
            "swiglu_limit": 7.0,  # which its numbers do not reach
        },
    ),
    ModelCase(
        "model/gemma3",
        "Gemma 3's text stack: norms of 1 + weight on both sides, scaled embeddings, RoPE of two bases, a window.",
        3008,
        "gemma3",
        "gemma3_text",
        {**_SIZES, "hidden_size": 18, "query_pre_attn_scalar": 256, "rope_parameters": _TWO_BASES},
    ),
    ModelCase(
        "model/embedding",
        "A Qwen3's last token as an embedding, cut to 11 channels; padded on the right, where the last slot is none.",
        3011,
        "qwen3-pooled",
        "qwen3",
        around={"pool_last": 1, "dimensions": 11},
        padding="right",
        **_POOLED,
    ),
    ModelCase(
        "model/reranker",
        "A Qwen3's yes against its no; padded on the left, where the number of tokens less one is not the last.",
        3011,
        "qwen3-pooled",
        "qwen3",
        around={"score_no": 23, "score_yes": 37},
        **_POOLED,
    ),
)
"""Two rows each, the first padded on the left; a prefill and two steps that go on from its cache.

Of what stands around a model eight texts each, so that an explanation has fewer numbers than the tap."""
