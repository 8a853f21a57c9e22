"""Rotations of others: scaling in a part of the calls, numbers exchanged or dropped, what counts positions."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.blind.second.rotations import Tables, frequencies, plain, tables
from detection.mutants.patch import Patch
from qwen3_encdec import merged_attention, modeling_qwen3_decoder, modeling_qwen3_encoder
from qwen3_encdec.rope import inverse_frequencies, rotary_tables
from qwen3_encdec.rope_scaling import yarn_frequencies


def unscaled_in_prompt(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
    """The prompt's tables are made of theta alone, those of decode steps as the config says."""
    if ids.shape[1] == 1:
        return plain(module, x, ids)
    return rotary_tables(inverse_frequencies(module.dim, module.base), ids, x.dtype)


def betas_exchanged(module: Any) -> torch.Tensor:
    """The ramp begins where it should end: quick pairs are divided by the factor, slow ones are not."""
    fast, slow = module.scaling.beta_fast, module.scaling.beta_slow
    inverted = module.scaling._replace(beta_fast=slow, beta_slow=fast, truncate=False)
    return yarn_frequencies(module.dim, module.base, inverted)


def positions_doubled(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
    """Without scaling, positions have a scale all the same: 2."""
    return rotary_tables(module.inv_freq, ids * 2, x.dtype, module.attention_factor)


def magnitude_dropped(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
    return rotary_tables(module.inv_freq, ids, x.dtype)


def slots_for_positions(patch: Patch) -> None:
    """Where no positions come with a call, its slots are counted, padding and all."""

    def around(plain_positions: Any, ids: Any, _mask: Any, *sizes: Any) -> Any:
        return plain_positions(ids, None, *sizes)

    for module in (modeling_qwen3_encoder, modeling_qwen3_decoder):
        patch.wrap(module, "positions", around)


def keys_turned_twice(patch: Patch) -> None:
    def rotate(plain_rotation: Any, q: torch.Tensor, k: torch.Tensor, *cos_sin: torch.Tensor) -> Any:
        queries, keys = plain_rotation(q, k, *cos_sin)
        return queries, plain_rotation(q, keys, *cos_sin)[1]

    patch.wrap(merged_attention, "apply_rotary_pos_emb", rotate)


_YARN, _TABLES = "decoder/yarn_stated decoder/yarn_mscale", "decoder.cos decoder.sin"
_ALL_TABLES = f"{_TABLES} encoder.cos encoder.sin decoder.encoder_cos decoder.encoder_sin"

ROWS = (
    row("E007", "the prompt's tables are made without the scaling that those of decode steps have",
        "Xilinx/mlir-air#1948", "rope scaling", "decoder/yarn_mscale decoder/yarn_stated", tables(unscaled_in_prompt),
        _TABLES),
    row("E008", "YaRN's two betas are exchanged: quick pairs are stretched and slow ones are not",
        "pytorch/torchtitan#3787", "rope scaling", _YARN, frequencies(betas_exchanged), "decoder.inv_freq"),
    row("E009", "positions are multiplied by 2 where nothing is scaled", "ml-explore/mlx-lm#1553", "positions",
        "decoder/head_dim_64 encdec/unpadded", tables(positions_doubled), _ALL_TABLES),
    row("E010", "cos and sin are never multiplied by YaRN's attention_factor", "GaijinEntertainment/daScript#3479",
        "rope scaling", _YARN, tables(magnitude_dropped), _TABLES),
    row("E011", "the mask never reaches the positions: slots are counted, with padding",
        "TransformerLensOrg/TransformerLens#1609", "positions", "decoder/ragged_decode encdec/ragged",
        slots_for_positions, "decoder.position_ids encoder.position_ids decoder.encoder_position_ids"),
    row("E012", "keys go through the rotation twice",
        "labmlai/annotated_deep_learning_paper_implementations#251", "rotation",
        "decoder/inputs_embeds encdec/unpadded", keys_turned_twice, "merged_attn.k_rope"),
)  # fmt: skip
