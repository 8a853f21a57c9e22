"""Bugs of the two products of attention."""

from __future__ import annotations

from typing import Any

import torch

from detection.kernels.seeds import (
    CONTEXT,
    SCORES,
    bug,
    cleared,
    context,
    half,
    inputs_of,
    output_of,
    replaced,
    running_sum,
    scores,
    tail,
    whole,
)
from qwen3_encdec.attention import repeat_kv

ALONE = ("decoder/ragged_decode", "encoder/ragged")  # an odd number of queries


def scores_with_a_tail_twice(plain: Any, q: Any, k: Any, scaling: float, groups: int) -> Any:
    return plain(q, k, scaling, groups) + plain(tail(q, -1, 8), tail(k, -1, 8), scaling, groups)


def context_with_a_tail_twice(plain: Any, probs: Any, v: Any, groups: int) -> Any:
    return plain(probs, v, groups) + plain(tail(probs, -1, 4), tail(v, 2, 4), groups)


def repeated_along_keys(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Each key repeated, not each head, and the result viewed as heads."""
    batch, heads, keys, dim = x.shape
    return x.repeat_interleave(groups, dim=2).reshape(batch, heads * groups, keys, dim)


def heads_by_tiles(x: torch.Tensor, groups: int) -> torch.Tensor:
    """The KV head of a tile of four query heads is that of its first one."""
    return x[:, [head // 4 * 4 // groups for head in range(x.shape[1] * groups)]]


def as_contiguous(x: torch.Tensor) -> torch.Tensor:
    """`[batch, heads, seq, dim]` read as if its memory, `[batch, seq, heads, dim]`, had that order."""
    return x.transpose(1, 2).reshape(x.shape)


def head_stride_of_queries(x: torch.Tensor) -> torch.Tensor:
    """The second KV head starts where the second head of as many heads as queries have would: wrapped to the first."""
    return torch.cat((x[:, :1], x[:, :1].roll(1, dims=2), x[:, 2:]), 1)


def last_query_is_the_one_before(x: torch.Tensor) -> torch.Tensor:
    odd = x.shape[-2] % 2 and x.shape[-2] > 1
    return torch.cat((x[..., :-1, :], x[..., -2:-1, :]), -2) if odd else x


def scores_summed_in(dtype: torch.dtype) -> Any:
    def kernel(plain: Any, q: Any, k: Any, scaling: float, groups: int) -> Any:
        return running_sum(q[:, :, :, None] * repeat_kv(k, groups)[:, :, None], dtype) * scaling

    return kernel


def context_summed_in(dtype: torch.dtype) -> Any:
    def kernel(plain: Any, probs: Any, v: Any, groups: int) -> Any:
        parts = probs[..., None, :] * repeat_kv(v, groups).transpose(2, 3)[:, :, None]
        return running_sum(parts, dtype).transpose(1, 2).contiguous()

    return kernel


def groups_by(read: Any) -> tuple[Any, Any]:
    """Kernels of both products whose query heads read the KV heads `read(x, groups)`."""
    return (
        lambda plain, q, k, scaling, groups: plain(q, read(k, groups), scaling, 1),
        lambda plain, probs, v, groups: plain(probs, read(v, groups), 1),
    )


along_keys, by_tiles = groups_by(repeated_along_keys), groups_by(heads_by_tiles)


def dim_tail_lost(block: int) -> Any:
    return lambda x: whole(x, -1, block)


MUTANTS = (
    bug("scores-dim-tail-4", "head_dim beyond whole blocks of 4 is not summed into the scores",
        inputs_of(scores, dim_tail_lost(4), dim_tail_lost(4)), SCORES),
    bug("scores-dim-tail-doubled", "the tail of head_dim beyond a block of 8 is summed twice",
        replaced(scores, scores_with_a_tail_twice), SCORES),
    bug("scores-keys-tail-4", "the scores of keys beyond whole blocks of 4 are never written and stay 0",
        output_of(scores, lambda x: cleared(x, -1, 4)), SCORES),
    bug("scores-heads-tail-4", "the scores of heads beyond whole blocks of 4 are never written and stay 0",
        output_of(scores, lambda x: cleared(x, 1, 4)), SCORES),
    bug("scores-odd-query", "two queries at a time: an odd last one gets the scores of the one before",
        output_of(scores, last_query_is_the_one_before), SCORES, ALONE),
    bug("scores-keys-contiguous", "keys that are a transposed view are read as contiguous",
        inputs_of(scores, None, as_contiguous), SCORES),
    bug("scores-head-stride", "the head stride of keys lands in the first KV head, one key late",
        inputs_of(scores, None, head_stride_of_queries), SCORES),
    bug("scores-repeat-keys", "keys are repeated along their own axis and viewed as heads",
        replaced(scores, along_keys[0]), SCORES),
    bug("scores-head-tile", "a tile of 4 query heads crosses a group and reads the KV head of its first",
        replaced(scores, by_tiles[0]), SCORES),
    bug("scores-bfloat16-sum", "the product of queries and keys is accumulated in bfloat16",
        replaced(scores, scores_summed_in(torch.bfloat16)), SCORES),
    bug("scores-float16-inputs", "queries and keys are rounded to float16 before the product",
        inputs_of(scores, half(torch.float16), half(torch.float16)), SCORES),
    bug("scores-fp8-keys", "keys are rounded to float8 (e4m3) before the product",
        inputs_of(scores, None, half(torch.float8_e4m3fn)), SCORES),
    bug("context-keys-tail-4", "keys beyond whole blocks of 4 are left out of the product with values",
        inputs_of(context, lambda p: whole(p, -1, 4), lambda v: whole(v, 2, 4)), CONTEXT),
    bug("context-keys-tail-doubled", "keys beyond whole blocks of 4 are added twice to the context",
        replaced(context, context_with_a_tail_twice), CONTEXT),
    bug("context-dim-tail-8", "components of the context beyond a block of 8 are never written and stay 0",
        output_of(context, lambda x: cleared(x, -1, 8)), CONTEXT),
    bug("context-odd-query", "two queries at a time: an odd last one gets the context of the one before",
        output_of(context, lambda x: last_query_is_the_one_before(x.transpose(1, 2)).transpose(1, 2)), CONTEXT, ALONE),
    bug("context-values-contiguous", "values that are a transposed view are read as contiguous",
        inputs_of(context, None, as_contiguous), CONTEXT),
    bug("context-repeat-keys", "values are repeated along their keys and viewed as heads",
        replaced(context, along_keys[1]), CONTEXT),
    bug("context-head-tile", "a tile of 4 query heads reads the values of its first head's KV head",
        replaced(context, by_tiles[1]), CONTEXT),
    bug("context-float16-sum", "the product with values is accumulated in float16",
        replaced(context, context_summed_in(torch.float16)), CONTEXT),
    bug("context-bfloat16-probs", "probabilities are rounded to bfloat16 before the product with values",
        inputs_of(context, half(torch.bfloat16)), CONTEXT),
)  # fmt: skip
