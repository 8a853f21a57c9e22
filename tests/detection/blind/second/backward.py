"""The ways back of others through fused operations: one that ends there, one that writes every row into the first."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import rope
from qwen3_encdec.mlp import Qwen3MLP


def rotation_without_a_way_back(patch: Patch) -> None:
    patch.function(rope.apply_rotary, lambda plain, x, cos, sin: plain(x, cos, sin).detach())


class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        return functional.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Every row's gradients are stored at row 0, the last one stays there."""
        gate, up = ctx.saved_tensors
        share = torch.sigmoid(gate)
        of_gate = gradients[0] * up * share * (1 + gate * (1 - share))
        of_up = gradients[0] * gate * share
        return _last_at_first(of_gate), _last_at_first(of_up)


def _last_at_first(gradient: torch.Tensor) -> torch.Tensor:
    rows = torch.zeros_like(gradient).flatten(0, -2)
    rows[0] = gradient.flatten(0, -2)[-1]
    return rows.view(gradient.shape)


def gate_by_row_zero(patch: Patch) -> None:
    apply: Any = _Gate.apply

    def forward(block: Any, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = block.down_proj(apply(block.gate_proj(x), block.up_proj(x)))
        return result

    patch.setattr(Qwen3MLP, "forward", forward)


_CASES = "training/causal training/tied"
_NORMED = "gradient.merged_attn.q_norm gradient.merged_attn.k_norm gradient.self_attn.q_norm gradient.self_attn.k_norm"
_STREAM = "gradient.output gradient.attn_residual gradient.decoder.embed_tokens gradient.encoder.embed_tokens"
_SHARED = "gradient.input_layernorm.weight gradient.shared.weight gradient.encoder.norm gradient.encoder.norm.weight"
_OF_QK = " ".join(
    f"gradient.{attention}.{name}"
    for attention in ("merged_attn", "self_attn")
    for name in ("q_proj", "k_proj", "q_proj.weight", "k_proj.weight", "q_norm.weight", "k_norm.weight")
)
_BEHIND_GATE = " ".join(
    f"gradient.{name}"
    for name in (
        *("post_attention_layernorm", "attn_residual", "mlp.gate_proj.weight", "mlp.up_proj.weight"),
        "post_attention_layernorm.weight",
    )
)
"""What gradients that are not recorded are seen at."""

ROWS = (
    row("D055", "the fused rotation has no way back: no gradient reaches q and k", "huggingface/candle#3612",
        "backward", _CASES, rotation_without_a_way_back, f"{_NORMED} gradient.merged_attn.encoder_k_norm",
        also=f"{_STREAM} {_SHARED} {_OF_QK}"),
    row("D056", "the gate's way back writes every row's gradient into row 0", "ByteDance-Seed/Triton-distributed#185",
        "backward", _CASES, gate_by_row_zero, "gradient.mlp.gate_proj gradient.mlp.up_proj", also=_BEHIND_GATE),
)  # fmt: skip
