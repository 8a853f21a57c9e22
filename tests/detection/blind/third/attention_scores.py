"""Attention kernels of others: scales that are another number, KV heads by the wrong index, few bits, split keys."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.first.softmaxes import split
from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec import classic_attention


def unscaled(patch: Patch) -> None:
    for attention in patch.attentions("encoder"):
        patch.setattr(attention, "scaling", 1.0)


def by_count_of_heads(patch: Patch) -> None:
    def scores(plain: Any, q: torch.Tensor, k: torch.Tensor) -> Any:
        return plain(q, k) * q.shape[-1] ** 0.5 * q.shape[1] ** -0.5

    patch.function(classic_attention.scaled_scores, scores)


def default_scale(plain: Any, q: torch.Tensor, k: torch.Tensor, _scaling: float, groups: int) -> Any:
    """Without a scale from the caller it is 0, which was to stand for the inverse root of head_dim."""
    return plain(q, k, 0.0, groups)


def rows_by_query_head(x: torch.Tensor, heads: int) -> torch.Tensor:
    """`[batch, kv_heads, key, dim]`, read at `key * kv_heads + query head` of `[batch, key, kv_heads, dim]`."""
    batch, kv_heads, keys, dim = x.shape
    memory = torch.cat((x.transpose(1, 2).reshape(-1, dim), x.new_zeros(heads, dim)))
    index = torch.arange(batch * keys)[:, None] * kv_heads + torch.arange(heads)
    return memory[index].view(batch, keys, heads, dim).transpose(1, 2)


def indexed_by_query_head(patch: Patch) -> None:
    """In prompts a query head's index is the KV head's, too."""

    def scores(plain: Any, q: torch.Tensor, k: torch.Tensor, scaling: float, groups: int) -> Any:
        if q.shape[2] == 1:
            return plain(q, k, scaling, groups)
        return plain(q, rows_by_query_head(k, q.shape[1]), scaling, 1)

    def context(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
        if probs.shape[2] == 1:
            return plain(probs, v, groups)
        return plain(probs, rows_by_query_head(v, probs.shape[1]), 1)

    patch.function(code.scaled_scores, scores)
    patch.function(code.weighted_values, context)


def eight_bit_weights(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
    """Powers of e are cast to 8-bit floats before they weigh the values, and summed up before they are cast."""
    largest = probs.amax(-1, keepdim=True)
    return plain((probs / largest).to(torch.float8_e4m3fn).to(probs.dtype) * largest, v, groups)


def shares_of_first_kv_head(patch: Patch) -> None:
    """The log-sum-exps of split keys are read without the stride of KV heads: all take those of the first one."""
    groups = patch.attentions("decoder")[0].num_key_value_groups

    def weigh(largest: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
        totals = largest + sums.log()
        return totals[:, torch.arange(totals.shape[1]) % groups].softmax(-1)

    split(weigh)(patch)


_SCORES, _CONTEXT = "merged_attn.scores self_attn.scores", "merged_attn.context self_attn.context"

ROWS = (
    row("E019", "the fallback of the encoder's attention leaves the scale out", "mlc-ai/mlc-llm#3426", "scale",
        "encoder/ragged encdec/unpadded", unscaled, "self_attn.scores"),
    row("E020", "scores are scaled by the number of heads instead of head_dim", "tenstorrent/tt-metal#56789", "scale",
        "classic/bert classic/pre_norm", by_count_of_heads, "self_attn.scores"),
    row("E021", "the scale's default, 0, is multiplied as it is: all scores are 0",
        "SKaiNET-developers/SKaiNET#860", "scale", "encdec/window decoder/multiples_of_256",
        lambda patch: patch.function(code.scaled_scores, default_scale), _SCORES),
    row("E022", "in prompts the query head's index stands for the KV head's: later heads read later tokens",
        "LMCache/LMCache#3092", "kernel heads", "decoder/plain_two_rows encoder/ragged", indexed_by_query_head,
        f"{_SCORES} {_CONTEXT}"),
    row("E023", "probabilities are rounded to 8-bit floats behind their sum", "ROCm/FlyDSL#1020",
        "quantised attention", "encdec/unpadded encoder/ragged",
        lambda patch: patch.function(code.weighted_values, eight_bit_weights), _CONTEXT),
    row("E024", "split keys of all KV heads are joined by the first one's log-sum-exps", "Tencent/hpc-ops#6",
        "softmax", "decoder/ragged_decode encdec/ragged", shares_of_first_kv_head, "merged_attn.probs"),
)  # fmt: skip
