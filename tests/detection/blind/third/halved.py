"""Half precision and less of others: logits, probabilities that meet values, and probabilities in 8 bits."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code


def rounded_logits(patch: Patch) -> None:
    patch.result(patch.model.lm_head, "forward", lambda y: y.bfloat16().float())


def rounded_weights(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
    return plain(probs.bfloat16().to(probs.dtype), v, groups)


def eight_bits(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
    """Exponentials of at most 1 are rounded to 8-bit floats; the sum that divides them is of those before."""
    largest = probs.amax(-1, keepdim=True).clamp(min=1e-30)
    rounded = (probs / largest).to(torch.float8_e4m3fn).to(probs.dtype) * largest
    return plain(rounded if probs.shape[2] > 1 else probs, v, groups)


_CONTEXT = "merged_attn.context self_attn.context"

ROWS = (
    row("E090", "the head's logits are rounded to bfloat16", "sgl-project/sglang#34790", "half precision",
        "decoder/head_dim_64 encdec/ragged", rounded_logits, "logits"),
    row("E091", "probabilities are rounded to bfloat16 before they meet the values", "vllm-project/vllm#2368",
        "half precision", "encdec/unrotated encoder/window_odd",
        lambda patch: patch.function(code.weighted_values, rounded_weights), _CONTEXT),
    row("E092", "a prompt's exponentials are rounded to 8-bit floats behind their sum: the small ones vanish",
        "flashinfer-ai/flashinfer#5020", "8 bits", "decoder/plain_two_rows encdec/ragged",
        lambda patch: patch.function(code.weighted_values, eight_bits), _CONTEXT),
)  # fmt: skip
