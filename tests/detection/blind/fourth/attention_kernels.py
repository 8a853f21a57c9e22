"""Attention kernels of others: heads and rows that nobody computes, split keys, and softmaxes."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.first.softmaxes import probabilities
from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec import classic_attention

_SPLITS, _BLOCK = 2, 4
"""Parts that share the keys of a decode step; keys of a block."""


def first_kv_head(patch: Patch) -> None:
    """A head's number is divided by the number of KV heads, which is 0 where each head has its own."""

    def index(x: torch.Tensor) -> torch.Tensor:
        return x[:, torch.arange(x.shape[1]) // x.shape[1]]

    patch.function(classic_attention.scaled_scores, lambda plain, q, k: plain(q, index(k)))
    for layer in patch.model.layers:
        patch.wrap(
            layer.self_attn, "attention", lambda plain, q, k, v, hidden, drop: plain(q, k, index(v), hidden, drop)
        )


def colliding_heads(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> torch.Tensor:
    """Block b computes head `b % group * group + b // group`: some twice or beyond the last, some never."""
    block = torch.arange(probs.shape[1])
    computed = torch.isin(block, block % groups * groups + block // groups)
    context: torch.Tensor = plain(probs, v, groups)
    return context * computed[:, None]


def softmax_twice(scores: torch.Tensor) -> torch.Tensor:
    """The second softmax has no mask: what was hidden has the score 0."""
    return scores.softmax(-1).softmax(-1)


def all_splits_first(scores: torch.Tensor) -> torch.Tensor:
    """Each part of a decode step's keys begins at the first key: what lies behind the first part is never read."""
    keys = scores.shape[-1]
    if scores.shape[2] > 1 or keys < _SPLITS:
        return scores.softmax(-1)
    size = keys // _SPLITS
    return torch.nn.functional.pad(scores[..., :size].softmax(-1), (0, keys - size))


def rows_up_to_window(patch: Patch) -> None:
    """In layers with a window the loop over a prompt's queries ends at the window's length."""
    running: list[int | None] = [None]

    def context(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> torch.Tensor:
        result: torch.Tensor = plain(probs, v, groups)
        if running[0] is not None and result.shape[1] > 1:
            result[:, running[0] :] = 0
        return result

    for attention in patch.attentions("decoder"):

        def attend(plain: Any, *args: Any, window: int | None = attention.sliding_window, **kwargs: Any) -> Any:
            running[0] = window
            try:
                return plain(*args, **kwargs)
            finally:
                running[0] = None

        patch.wrap(attention, "attend", attend)
    patch.function(code.weighted_values, context)


def inverse_rescale(scores: torch.Tensor) -> torch.Tensor:
    """Block by block: what was summed up of values is divided by the factor that the sum of exp is multiplied by."""
    largest = scores[..., :0].new_full((*scores.shape[:-1], 1), -torch.inf)
    total, weights = torch.zeros_like(largest), scores[..., :0]
    for block in torch.split(scores, _BLOCK, dim=-1):
        new = torch.maximum(largest, block.amax(-1, keepdim=True))
        factor, exps = (largest - new).exp(), (block - new).exp()
        total = total * factor + exps.sum(-1, keepdim=True)
        weights = torch.cat((weights / factor, exps), dim=-1)
        largest = new
    return weights / total


_PROBS = "merged_attn.probs"

ROWS = (
    row("F019", "every head reads the first head's keys and values: its number is divided by the wrong count",
        "PSAL-POSTECH/ONNXim#33", "kernel heads", "classic/bert classic/pre_norm", first_kv_head,
        "self_attn.scores self_attn.context"),
    row("F020", "blocks are mapped to heads by the wrong modulus: some heads are never computed",
        "HazyResearch/HipKittens#22", "kernel heads", "decoder/multiples_of_256 decoder/plain",
        lambda patch: patch.function(code.weighted_values, colliding_heads), "merged_attn.context"),
    row("F021", "a second softmax without a mask runs over the first one's probabilities", "zyy-2001/DisKT#6",
        "softmax", "decoder/plain_two_rows encdec/ragged", probabilities(softmax_twice), f"{_PROBS} self_attn.probs"),
    row("F022", "each part of split keys begins at the first key: the later ones are never read",
        "tile-ai/tilelang#2010", "softmax", "decoder/ragged_decode encdec/ragged", probabilities(all_splits_first),
        _PROBS),
    row("F023", "in layers with a window rows of a prompt behind the window's length are never computed",
        "nntrainer/nntrainer#3989", "kernel rows", "encdec/window encdec/second_request", rows_up_to_window,
        "merged_attn.context"),
    row("F024", "the running sum of values is rescaled by the inverse factor", "Dao-AILab/flash-attention#991",
        "softmax", "decoder/plain decoder/head_dim_64", probabilities(inverse_rescale), _PROBS),
)  # fmt: skip
