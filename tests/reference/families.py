"""Families of transformers whose networks are exported as graphs, each as a tiny loud model: a row is all it needs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch

_SIZES = {
    "vocab_size": 61,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "pad_token_id": 0,
}
_EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 14, "norm_topk_prob": True}
_ROUTED = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 14, "first_k_dense_replace": 1}
_LATENT = {
    **_ROUTED,
    "n_group": 2,
    "topk_group": 1,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 6,
    "v_head_dim": 6,
    "head_dim": 4,
    "num_key_value_heads": 6,
}
_DELTA = {
    "num_hidden_layers": 4,
    "head_dim": 8,
    "shared_expert_intermediate_size": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_FOUR = {"num_local_experts": 4, "num_experts_per_tok": 2}
_EVEN = {"head_dim": 4}
"""Heads that fill the hidden width, where a family has no head_dim of its own."""
_MAMBA = {"mamba_n_heads": 6, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 4}

FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "qwen3.Qwen3": {},
    "qwen3_moe.Qwen3Moe": {**_EXPERTS, "decoder_sparse_step": 1},
    "qwen2.Qwen2": {},
    "qwen2_moe.Qwen2Moe": {**_EXPERTS, "shared_expert_intermediate_size": 16},
    "llama.Llama": {},
    "mistral.Mistral": {},
    "ministral.Ministral": {},
    "mixtral.Mixtral": _FOUR,
    "gpt_oss.GptOss": _FOUR,
    "gemma2.Gemma2": {},
    "gemma.Gemma": {},
    "gemma3.Gemma3": {},
    "gemma4.Gemma4": {},
    "olmo.Olmo": {},
    "olmo2.Olmo2": {},
    "olmo3.Olmo3": {},
    "olmoe.Olmoe": {"num_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 6, **_EVEN},
    "glm.Glm": {},
    "glm4.Glm4": {},
    "glm4_moe.Glm4Moe": _ROUTED,
    "deepseek_v2.DeepseekV2": _LATENT,
    "deepseek_v3.DeepseekV3": _LATENT,
    "dots1.Dots1": {**_ROUTED, "n_shared_experts": 1, "n_group": 1, "topk_group": 1},
    "phi.Phi": _EVEN,
    "phi3.Phi3": {},
    "granite.Granite": {},
    "granitemoe.GraniteMoe": _FOUR,
    "cohere.Cohere": {},
    "cohere2.Cohere2": {},
    "smollm3.SmolLM3": {},
    "starcoder2.Starcoder2": {},
    "stablelm.StableLm": {},
    "gpt_neox.GPTNeoX": {},
    "nemotron.Nemotron": {},
    "opt.OPT": {"ffn_dim": 40},
    "bloom.Bloom": {},
    "ernie4_5.Ernie4_5": {},
    "exaone4.Exaone4": {},
    "seed_oss.SeedOss": {},
    "hunyuan_v1_dense.HunYuanDenseV1": {},
    "arcee.Arcee": {},
    "apertus.Apertus": {},
    "helium.Helium": _EVEN,
    "minimax.MiniMax": _FOUR,
    "lfm2.Lfm2": {},
    "mamba2.Mamba2": {"num_heads": 6, "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 4},
    "mamba.Mamba": {"state_size": 4},
    "falcon_h1.FalconH1": {**_MAMBA, "mamba_d_ssm": 48},
    "bamba.Bamba": {**_MAMBA, "attn_layer_indices": [1]},
    "qwen3_next.Qwen3Next": {**_EXPERTS, **_DELTA},
    "qwen3_5.Qwen3_5": _DELTA,
    "qwen3_5_moe.Qwen3_5Moe": {**_EXPERTS, **_DELTA},
}
"""Package and beginning of the class's name, with the sizes that a family calls otherwise. The last three, whose chunk
rule is a loop, take a minute each."""


@cache
def tiny(family: str) -> Any:
    """A small model of a family in float32, its numbers drawn from a seed, norm weights far from 1."""
    package, name = family.split(".")
    module = importlib.import_module(f"transformers.models.{package}")
    config_class = getattr(module, f"{name}TextConfig", None) or getattr(module, f"{name}Config")
    config = config_class(**{**_SIZES, **FAMILIES[family]})
    config._attn_implementation, config._experts_implementation = "eager", "batched_mm"
    model = getattr(module, f"{name}ForCausalLM")(config).eval().float().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data.normal_(0 if parameter.ndim > 1 else 1, 0.3, generator=generator)
    return model
