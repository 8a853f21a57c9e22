"""Norms of others: numbers that stand in the code, sums without their count, axes, weights, and what comes before."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.first.norms import BLOCK, DECODER, HEADS, norms
from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import merged_attention
from qwen3_encdec.merged_attention import Qwen3MergedAttention

_EPS, _TILE = 1e-6, 32
"""What the code has instead of the config's eps; channels of a tile."""


def eps_in_the_code(norm: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = norm.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + _EPS))
    return result


def sum_of_squares(norm: Any, x: torch.Tensor) -> torch.Tensor:
    """The statistic is summed, and nobody divides it by the number of channels."""
    result: torch.Tensor = norm.weight * (x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + norm.variance_epsilon))
    return result


def along_the_sequence(norm: Any, x: torch.Tensor) -> torch.Tensor:
    """`[batch, length, channel]` is brought to length 1 along the wrong axis, and multiplied by `dim ** -0.5`."""
    result: torch.Tensor = torch.nn.functional.normalize(x, dim=-2) * x.shape[-1] ** -0.5 * norm.weight
    return result


def weight_unread(norm: Any, x: torch.Tensor) -> torch.Tensor:
    """The kernel reads its weight where there is a bias, too."""
    result: torch.Tensor = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    return result


def padding_summed(norm: Any, x: torch.Tensor) -> torch.Tensor:
    """What fills the last tile of channels holds ones, and the sum runs over the whole tile."""
    size = x.shape[-1]
    squares = torch.nn.functional.pad(x.pow(2), (0, -size % _TILE), value=1.0)
    result: torch.Tensor = norm.weight * (x * torch.rsqrt(squares.sum(-1, keepdim=True) / size + norm.variance_epsilon))
    return result


def behind_the_rotation(patch: Patch) -> None:
    """q and k are rotated first and normed then."""
    running: list[Any] = []

    def project(module: Any, states: torch.Tensor) -> Any:
        running[:] = [module]
        projected = (module.q_proj(states), module.k_proj(states), module.v_proj(states))
        return tuple(module._split_heads(x).transpose(1, 2) for x in projected)

    def rotate(plain: Any, q: torch.Tensor, k: torch.Tensor, *tables: torch.Tensor) -> Any:
        norms_of_heads = running[0].q_norm, running[0].k_norm
        turned = plain(q, k, *tables)
        return tuple(norm(x.transpose(1, 2)).transpose(1, 2) for norm, x in zip(norms_of_heads, turned, strict=True))

    patch.setattr(Qwen3MergedAttention, "project", project)
    patch.wrap(merged_attention, "apply_rotary_pos_emb", rotate)


_BLOCKS = "decoder.norm input_layernorm post_attention_layernorm"
_ENCODER = "encoder.norm input_layernorm post_attention_layernorm"
_QK = "merged_attn.q_norm merged_attn.k_norm"

ROWS = (
    row("E001", "eps is 1e-6 in the code, whatever the config says", "PaddlePaddle/FastDeploy#2804", "norm eps",
        "decoder/window_chunks encdec/window", norms(eps_in_the_code, "norm", *BLOCK, *HEADS), DECODER,
        also="merged_attn.encoder_k_norm"),
    row("E002", "the sum of squares is taken for their mean", "tenstorrent/tt-mlir#8798", "norm formula",
        "decoder/plain_two_rows encdec/ragged", norms(sum_of_squares, "norm", *BLOCK), _BLOCKS),
    row("E003", "channels are brought to length 1 along the sequence, and multiplied by the width's inverse root",
        "kyegomez/zeta#180", "norm axis", "encoder/window_odd encdec/ragged",
        norms(along_the_sequence, "norm", *BLOCK, stack="encoder"), _ENCODER),
    row("E004", "q and k are normed behind their rotation instead of before it", "meta-pytorch/torchtune#2809",
        "norm wiring", "decoder/plain_two_rows decoder/head_dim_64", behind_the_rotation,
        f"{_QK} merged_attn.q_rope merged_attn.k_rope"),
    row("E005", "a norm without a bias ignores its weight, too", "pytorch/pytorch#69208", "norm weight",
        "decoder/plain encdec/unpadded", norms(weight_unread, "norm", *BLOCK), _BLOCKS),
    row("E006", "the ones that fill the last tile of channels are summed up with the squares",
        "tenstorrent/tt-metal#43350", "norm formula", "decoder/ragged_decode encdec/ragged",
        norms(padding_summed, "norm", *BLOCK), _BLOCKS),
)  # fmt: skip
