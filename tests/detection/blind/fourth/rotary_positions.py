"""Rotations of others: frequencies of the next pair, sums that are not taken, and YaRN's numbers."""

from __future__ import annotations

import math
from typing import Any

import torch

from detection.blind.row import row
from detection.blind.second.rotations import Tables, frequencies, tables, turned
from detection.mutants.patch import Patch
from qwen3_encdec.rope import inverse_frequencies, rotary_tables
from qwen3_encdec.rope_scaling import yarn_frequencies


def one_pair_early(module: Any) -> torch.Tensor:
    """`theta ** (-2 (i - 1) / dim)`, where pairs are counted from 1 in the paper and from 0 in the loop."""
    pairs = torch.arange(module.dim // 2, dtype=torch.float32)
    result: torch.Tensor = module.base ** (-2.0 * (pairs - 1) / module.dim)
    return result


def products_alone(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """`[-x2, x1]` is multiplied by `[cos, sin]`, and nothing is added to it."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return torch.cat((-second * cos[:, None, :, :half], first * sin[:, None, :, half:]), dim=-1)


def factor_of_both(patch: Patch) -> None:
    """The config's attention_factor multiplies the factor that YaRN's formula gives."""
    module = patch.model.decoder.rotary_emb
    patch.setattr(module, "attention_factor", module.attention_factor * (0.1 * math.log(module.scaling.factor) + 1.0))


def positions_divided(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
    """Positions are divided by YaRN's factor, up to the original length; frequencies are theta's."""
    divided = (ids / module.scaling.factor).clamp(max=module.scaling.original_max_position_embeddings - 1)
    return rotary_tables(inverse_frequencies(module.dim, module.base), divided, x.dtype, module.attention_factor)


def ramp_of_extended_length(module: Any) -> torch.Tensor:
    extended = module.scaling._replace(original_max_position_embeddings=module.max_position_embeddings)
    return yarn_frequencies(module.dim, module.base, extended)


_YARN, _TABLES = "decoder/yarn_stated decoder/yarn_mscale", "decoder.cos decoder.sin"

ROWS = (
    row("F007", "each pair has the frequency of the pair before it", "bkitano/llama-from-scratch#8", "rope frequencies",
        "decoder/plain encdec/ragged", frequencies(one_pair_early), "decoder.inv_freq encoder.inv_freq"),
    row("F008", "the two products of a rotation are never added up", "NVIDIA/ngpt#10", "rotation",
        "decoder/head_dim_64 decoder/plain", turned(products_alone), "merged_attn.q_rope merged_attn.k_rope"),
    row("F009", "there is no rotation at all", "sqliteai/warp#27", "rotation", "encdec/ragged decoder/plain",
        turned(lambda x, _cos, _sin: x.clone()),
        "merged_attn.q_rope merged_attn.k_rope self_attn.q_rope self_attn.k_rope merged_attn.encoder_k_rope"),
    row("F010", "attention_factor multiplies YaRN's own factor instead of standing for it",
        "sgl-project/sglang#33558", "rope scaling", "decoder/yarn_stated", factor_of_both, _TABLES),
    row("F011", "YaRN divides positions by its factor, as linear scaling does", "rasbt/LLMs-from-scratch#940",
        "rope scaling", _YARN, tables(positions_divided), _TABLES),
    row("F012", "YaRN's ramp is counted over the extended length instead of the original one",
        "NVIDIA/Megatron-LM#1418", "rope scaling", _YARN, frequencies(ramp_of_extended_length), "decoder.inv_freq"),
)  # fmt: skip
