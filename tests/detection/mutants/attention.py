"""Wrong attention: a scale in the wrong place, dropout that stays on."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.mutant import Mutant, words
from detection.mutants.mutant import attention as taps
from detection.mutants.patch import Patch
from qwen3_encdec.attention import ProjectedAttention

BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
PROBS = taps("probs")


def scaled_before_norm(patch: Patch) -> None:
    def heads(m: Any, projected: torch.Tensor) -> Any:
        return m.q_norm(m._split_heads(projected) * m.head_dim**-0.5).transpose(1, 2)

    patch.setattr(ProjectedAttention, "query_heads", heads)
    for attn in patch.attentions():
        patch.setattr(attn, "scaling", 1.0)


def dropping(patch: Patch) -> None:
    for attn in patch.attentions():
        patch.setattr(attn, "training", True)
        patch.setattr(attn, "attention_dropout", 0.1)


MUTANTS = (
    Mutant("SCL-05", "queries scaled before their norm", scaled_before_norm, taps("q_norm scores"),
           words("scores.query_scaled_before_norm scores.scale norm.eps"), BOTH),
    Mutant("SMX-09", "dropout left on", dropping, PROBS, words("softmax.dropout fit.dropout"), BOTH),
)  # fmt: skip
