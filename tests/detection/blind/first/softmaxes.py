"""Attention kernels of others: split keys that are put together wrongly, tails of blocks, scales, strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code

Weigh = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""`weigh(largest, sums)`: the shares `[…, 2]` of two blocks of keys, from their largest scores and sums of exp."""


def probabilities(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """`change(masked scores)` gives the probabilities."""

    def around(_plain: Any, scores: torch.Tensor, mask: Any, dtype: torch.dtype) -> torch.Tensor:
        return change(scores if mask is None else scores + mask).to(dtype)

    return lambda patch: patch.function(code.probabilities, around)


def split(weigh: Weigh) -> Seed:
    """Decode steps work on two blocks of keys and join them by `weigh`."""

    def change(scores: torch.Tensor) -> torch.Tensor:
        if scores.shape[2] > 1 or scores.shape[3] < 2:
            return scores.softmax(-1)
        blocks = torch.split(scores, (scores.shape[3] + 1) // 2, dim=-1)
        largest = torch.cat([block.amax(-1, keepdim=True) for block in blocks], dim=-1)
        sums = torch.cat([(b - b.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True) for b in blocks], dim=-1)
        shares = torch.split(weigh(largest, sums), 1, dim=-1)
        return torch.cat([b.softmax(-1) * share for b, share in zip(blocks, shares, strict=True)], dim=-1)

    return probabilities(change)


def scaled_again(patch: Patch) -> None:
    scale = patch.model.config.head_dim**-0.5
    split(lambda largest, sums: (largest * scale + sums.log()).softmax(-1))(patch)


def base_two(largest: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
    return ((largest + sums.log()) * torch.tensor(2.0).log()).softmax(-1)


def tail_of_zeros(scores: torch.Tensor) -> torch.Tensor:
    keys = scores.shape[-1]
    return torch.nn.functional.pad(scores, (0, -keys % 4)).softmax(-1)[..., :keys]


def tail_dropped(scores: torch.Tensor) -> torch.Tensor:
    keys = scores.shape[-1] // 4 * 4 or scores.shape[-1]
    return torch.nn.functional.pad(scores[..., :keys].softmax(-1), (0, scores.shape[-1] - keys))


def capped(plain: Any, q: torch.Tensor, k: torch.Tensor, scaling: float, groups: int) -> torch.Tensor:
    return 30.0 * torch.tanh(plain(q, k, scaling, groups) / 30.0)


def by_hidden_size(patch: Patch) -> None:
    for attention in patch.attentions():
        patch.setattr(attention, "scaling", patch.model.config.hidden_size**-0.5)


def contiguous_queries(plain: Any, q: torch.Tensor, k: torch.Tensor, scaling: float, groups: int) -> torch.Tensor:
    """Queries lie in memory as [batch, query, heads, dim] and are read as [batch, heads, query, dim]."""
    short = 1 < q.shape[2] <= 8
    result: torch.Tensor = plain(q.transpose(1, 2).reshape(q.shape) if short else q, k, scaling, groups)
    return result


_STEPS = "decoder/ragged_decode encdec/ragged"
_PROBS = "merged_attn.probs"
_BOTH = "merged_attn.probs self_attn.probs"

ROWS = (
    row("B036", "split keys are joined by a log-sum-exp that was scaled once more",
        "HKUSTDial/flash-sparse-attention#106", "softmax", _STEPS, scaled_again, _PROBS),
    row("B037", "natural log-sum-exps of split keys are joined as powers of 2", "sgl-project/sglang#33064",
        "softmax", _STEPS, split(base_two), _PROBS),
    row("B038", "keys that only fill the last block count with a score of 0", "flashinfer-ai/flashinfer#5090",
        "softmax", "encdec/ragged decoder/ragged_decode", probabilities(tail_of_zeros), _BOTH),
    row("B039", "keys behind the last whole block of 4 are dropped", "deepspeedai/DeepSpeed#785", "softmax",
        "encdec/ragged decoder/ragged_decode", probabilities(tail_dropped), _BOTH),
    row("B040", "a missing config field caps attention scores at 30", "sgl-project/sglang#33915", "scores", _STEPS,
        lambda patch: patch.function(code.scaled_scores, capped), "merged_attn.scores self_attn.scores"),
    row("B041", "the softmax runs over queries", "nerdai/llms-from-scratch-rs#30", "softmax", _STEPS,
        probabilities(lambda scores: scores.softmax(-2)), _BOTH),
    row("B042", "scores are scaled by the hidden size instead of head_dim", "Graylab/DL4Proteins-notebooks#12",
        "scale", _STEPS, by_hidden_size, "merged_attn.scores self_attn.scores"),
    row("B043", "short queries are read without their strides: heads and positions are mixed up",
        "pytorch/pytorch#163597", "scores", _STEPS,
        lambda patch: patch.function(code.scaled_scores, contiguous_queries), "merged_attn.scores self_attn.scores"),
)  # fmt: skip
