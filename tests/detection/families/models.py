"""Families of transformers whose networks are exported as graphs, each as a tiny loud model: a row is all it needs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch

from qwen3_reference.graph.settings import EXPERTS
from qwen3_reference.graph.tiny import tiny_model

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
    "sliding_window": 4,
}
_EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": True}
_ROUTED = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1}
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
    "head_dim": 16,
    "shared_expert_intermediate_size": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_FOUR = {"num_local_experts": 4, "num_experts_per_tok": 2}
_EVEN = {"head_dim": 4}
"""Heads that fill the hidden width, where a family has no head_dim of its own."""
_HALF_TURNED = {"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 8}
"""Heads wide enough that RoPE turns more than one pair in half of them."""
_MAMBA = {"mamba_n_heads": 6, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 4}
_VISION = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 8,
}

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
    "phi.Phi": _HALF_TURNED,
    "phi3.Phi3": {},
    "granite.Granite": {"embedding_multiplier": 3.0, "attention_multiplier": 0.5, "residual_multiplier": 0.4,
        "logits_scaling": 2.0},
    "granitemoe.GraniteMoe": _FOUR,
    "cohere.Cohere": {},
    "cohere2.Cohere2": {},
    "smollm3.SmolLM3": {},
    "starcoder2.Starcoder2": {},
    "stablelm.StableLm": {**_HALF_TURNED, "partial_rotary_factor": 0.5},
    "gpt_neox.GPTNeoX": {**_HALF_TURNED, "rotary_pct": 0.5},
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
    "qwen2_5_vl.Qwen2_5_VL": {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}},
    "qwen3_vl.Qwen3VL": {},
    "qwen3_vl_moe.Qwen3VLMoe": {**_EXPERTS, "decoder_sparse_step": 1},
    "lfm2_moe.Lfm2Moe": {**_EXPERTS, "num_dense_layers": 1, "layer_types": ["conv", "full_attention"]},
    "ernie4_5_moe.Ernie4_5_Moe": {"moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 1,
        "moe_intermediate_size": 16, "moe_layer_start_index": 1, "moe_layer_end_index": 1},
    "minimax_m2.MiniMaxM2": _FOUR,
    "hunyuan_v1_moe.HunYuanMoEV1": {"num_experts": 4, "moe_topk": 2},
    "phimoe.Phimoe": {**_FOUR, **_EVEN},
    "flex_olmo.FlexOlmo": {"num_experts": 4, "num_experts_per_tok": 2, **_EVEN},
    "ministral3.Ministral3": {},
    "doge.Doge": {},
    "diffllama.DiffLlama": {"head_dim": 4},
    "cwm.Cwm": {},
    "granitemoeshared.GraniteMoeShared": {**_FOUR, "shared_intermediate_size": 16},
    "granitemoehybrid.GraniteMoeHybrid": {**_FOUR, **_MAMBA, "shared_intermediate_size": 16,
        "layer_types": ["mamba", "attention"], "mamba_expand": 2},
    "jamba.Jamba": {"num_experts": 4, "num_experts_per_tok": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
        "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 4, "mamba_dt_rank": 4,
        "use_mamba_kernels": False, **_EVEN},
    "gpt2.GPT2": {"n_positions": 64},
    "bert.Bert": {},
    "roberta.Roberta": {},
    "modernbert.ModernBert": {"global_attn_every_n_layers": 2, "local_attention": 6, **_EVEN},
    "t5gemma2.T5Gemma2": {"encoder": {"text_config": _SIZES, "vision_config": _VISION, "mm_tokens_per_image": 4},
        "decoder": _SIZES},
    "qwen4_exp.Qwen4Exp": {**_EXPERTS, **_DELTA, "hc_lowrank": 8, "eos_token_id": 1, "ple_layer_ids": [2],
        "ple_embed_dim": 24, "ngram_vocab_size_base": 50, "split_ngram_parts": 1, "heads_per_ngram": 2,
        "make_ngram_vocab_size_divisible_by": 8, "num_hidden_layers": 2, "layer_types": ["linear_attention"] * 2,
        "use_cache": False},
    "qwen3_next.Qwen3Next": {**_EXPERTS, **_DELTA},
    "qwen3_5.Qwen3_5": _DELTA,
    "qwen3_5_moe.Qwen3_5Moe": {**_EXPERTS, **_DELTA},
}  # fmt: skip
"""Package and beginning of the class's name, with the sizes that a family calls otherwise. The last three, whose chunk
rule is a loop, take a minute each."""


NAMED = [
    "afmoe",
    "aria_text",
    "axk1",
    "axk2",
    "bailing_hybrid",
    "bitnet",
    "biogpt",
    "codegen",
    "cohere2_moe",
    "ctrl",
    "deepseek_ocr2",
    "deepseek_v32",
    "deepseek_v4",
    "diffusion_gemma",
    "dots3_note",
    "emu3",
    "ernie4_5_vl_moe",
    "exaone_moe",
    "falcon",
    "falcon_mamba",
    "flint",
    "gemma3n_text",
    "glm4_moe_lite",
    "glm5_next",
    "glm_moe_dsa",
    "gpt_bigcode",
    "gpt_neo",
    "gpt_neox_japanese",
    "gptj",
    "granite_swa",
    "granitemoe_swa",
    "hrm_text",
    "hy_v3",
    "hy_v4",
    "hyperclovax",
    "inkling_text",
    "internlm3",
    "iquestcoder",
    "jais2",
    "kimi_linear",
    "kolibri1",
    "laguna",
    "lfm3",
    "llama4_text",
    "mellum",
    "mimo_v2_flash",
    "minicpm3",
    "minimax_m3_vl_text",
    "mllama",
    "moshi",
    "mpt",
    "musicgen_decoder",
    "nanochat",
    "nemotron_h",
    "olmo_hybrid",
    "openai-gpt",
    "paddleocr_vl",
    "persimmon",
    "recurrent_gemma",
    "rwkv",
    "solar_open",
    "vaultgemma",
    "xglm",
    "xlnet",
    "youtu",
    "zamba",
    "zamba2",
    "zaya",
    "albert",
    "bert-generation",
    "big_bird",
    "camembert",
    "convbert",
    "data2vec-text",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "esm",
    "esmc",
    "eurobert",
    "fnet",
    "funnel",
    "gte",
    "jina_embeddings_v3",
    "layoutlm",
    "luke",
    "megatron-bert",
    "mobilebert",
    "modernvbert",
    "mpnet",
    "mra",
    "nomic_bert",
    "nystromformer",
    "rembert",
    "roberta-prelayernorm",
    "roc_bert",
    "roformer",
    "tapas",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
    "yoso",
    "modernbert-decoder",
    "bart",
    "bigbird_pegasus",
    "blenderbot",
    "blenderbot-small",
    "m2m_100",
    "marian",
    "mbart",
    "mvp",
    "pegasus",
    "plbart",
    "prophetnet",
    "t5",
    "mt5",
    "umt5",
    "longt5",
    "t5gemma",
    "nllb-moe",
    "musicgen",
    "pop2piano",
    "whisper",
    "moonshine",
    "speech_to_text",
    "canary",
    "cohere_asr",
    "longcat_flash",
    "step3p7",
    "switch_transformers",
]
"""Families of which nothing stands here but transformers' name, in the sizes of `capture --tiny`: decoders, encoders,
encoder–decoders, those that hear, and experts in a loop.
"""

HEADS: Mapping[str, str] = {
    "qwen2_5_vl.Qwen2_5_VL": "TextModel",
    "qwen3_vl.Qwen3VL": "TextModel",
    "qwen3_vl_moe.Qwen3VLMoe": "TextModel",
    "gpt2.GPT2": "LMHeadModel",
    "bert.Bert": "ForMaskedLM",
    "roberta.Roberta": "ForMaskedLM",
    "modernbert.ModernBert": "ForMaskedLM",
    "t5gemma2.T5Gemma2": "ForConditionalGeneration",
}
"""The end of the class's name, where it is not "ForCausalLM"."""

ENCODERS = frozenset({"bert.Bert", "roberta.Roberta", "modernbert.ModernBert"})
"""Families that see all positions at once."""
WHOLE = ENCODERS | {"qwen4_exp.Qwen4Exp"}
"""Families that are run in one forward, without a cache."""
NOTES = {
    "qwen4_exp.Qwen4Exp": "linear attention alone: its indexed attention loops over what a mask shows, which "
    "torch.export cannot follow (data-dependent), and a cache without attention counts no positions",
    "mamba.Mamba": "without a mask: its steps take none",
}
"""What a family's row leaves out, and why."""
UNMASKED = frozenset({"mamba.Mamba"})
UNPLACED = frozenset({"opt.OPT"})
"""Families that take position_ids, and read them otherwise than all others."""
CUT_BADLY = {
    "mamba.Mamba": "a state goes on by one position at a time",
    "jamba.Jamba": "a state goes on by one position at a time",
}
"""Families whose prefill cannot be cut, by Hugging Face's own code, and why."""


@cache
def tiny(family: str) -> Any:
    """A small model of a family in float32, eager, its numbers drawn from a seed, norm weights far from 1."""
    if family in NAMED:
        model = tiny_model(family)
        for part in model.modules():
            _plain(getattr(part, "config", None))
        return model
    package, name = family.split(".")
    module = importlib.import_module(f"transformers.models.{package}")
    text = getattr(module, f"{name}TextConfig", None) if "encoder" not in FAMILIES[family] else None
    config_class = text or getattr(module, f"{name}Config")
    sizes = {} if "encoder" in FAMILIES[family] else dict(_SIZES)
    if not hasattr(config_class, "sliding_window"):
        sizes.pop("sliding_window", None)  # a cache would keep to it, the model would not
    config = config_class(**{**sizes, **FAMILIES[family]})
    _plain(config)
    model = getattr(module, name + HEADS.get(family, "ForCausalLM"))(config).eval().float().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data.normal_(0 if parameter.ndim > 1 else 1, 0.3, generator=generator)
    return model


def _plain(config: Any) -> None:
    """Eager attention, and experts that torch exports."""
    if hasattr(config, "_attn_implementation"):
        config._attn_implementation, config._experts_implementation = "eager", EXPERTS


def result(output: Any) -> torch.Tensor:
    """A model's result: logits, or the last hidden state of one without a head."""
    tensor: torch.Tensor = output.logits if "logits" in output else output.last_hidden_state
    return tensor
