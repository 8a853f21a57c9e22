"""Wrong heads and projections: which head reads which, how heads are split, joined and projected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.mutants.mutant import Mutant, Seed, attention, words
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec.attention import ProjectedAttention

HeadMap = Callable[[int, int], int]
"""`map(head, groups)`: the KV head of a query head."""

BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
STEPS = ("decoder/ragged_decode", "encdec/ragged")
REFUSED = frozenset[str]()
QKV = attention("q_proj k_proj v_proj encoder_k_proj encoder_v_proj")
SPLIT_V = words("merged_attn.cache_values merged_attn.cache_encoder_values self_attn.context")


def reading(chosen: HeadMap) -> Seed:
    """Query heads that read other KV heads in forwards of one token."""

    def repeated(x: torch.Tensor, groups: int) -> torch.Tensor:
        return x[:, [chosen(head, groups) for head in range(x.shape[1] * groups)]]

    def scores(plain: Any, q: Any, k: Any, scaling: float, groups: int) -> Any:
        return plain(q, repeated(k, groups), scaling, 1) if q.shape[2] == 1 else plain(q, k, scaling, groups)

    def weighted(plain: Any, probs: Any, v: Any, groups: int) -> Any:
        return plain(probs, repeated(v, groups), 1) if probs.shape[2] == 1 else plain(probs, v, groups)

    def seed(patch: Patch) -> None:
        patch.function(code.scaled_scores, scores)
        patch.function(code.weighted_values, weighted)

    return seed


def tiled(head: int, groups: int) -> int:
    return head % 2


def scrambled(x: torch.Tensor) -> torch.Tensor:
    """`[batch, heads, seq, dim]` as if `[batch, seq, heads, dim]` had been viewed so, not transposed."""
    return x.transpose(1, 2).reshape(x.shape)


def projected(method: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    return lambda patch: patch.result(ProjectedAttention, method, change)


def weights(change: Callable[[Any], None], layers: slice = slice(None)) -> Seed:
    """`change(attention)` of its parameters, in place."""

    def seed(patch: Patch) -> None:
        for attn in patch.attentions("decoder")[layers]:
            for projection in (attn.q_proj, attn.k_proj, attn.v_proj, attn.o_proj):
                patch.change(projection.weight, projection.weight)  # so that undo knows it
            with torch.no_grad():
                change(attn)

    return seed


def fused(attn: Any) -> torch.Tensor:
    """q, k and v of one group after the other, `[q q q k v | q q q k v]` by heads."""
    parts = [p.weight.clone().chunk(2) for p in (attn.q_proj, attn.k_proj, attn.v_proj)]
    return torch.cat([part[group] for group in range(2) for part in parts])


def fused_as_blocks(attn: Any) -> None:
    q, k, v = torch.split(fused(attn), [60, 20, 20])
    for projection, rows in zip((attn.q_proj, attn.k_proj, attn.v_proj), (q, k, v), strict=True):
        projection.weight.copy_(rows)


def k_reads_q(attn: Any) -> None:
    attn.k_proj.weight.copy_(attn.q_proj.weight[-20:])


def one_head_for_all(attn: Any) -> None:
    attn.q_proj.weight.copy_(attn.q_proj.weight[:10].repeat(6, 1))


def one_element(attn: Any) -> None:
    attn.k_proj.weight[3, 5] += 0.01


def last_row_lost(attn: Any) -> None:
    attn.v_proj.weight[-1] = 0


def narrow_heads(patch: Patch) -> None:
    for attn in patch.attentions():
        patch.setattr(attn, "head_dim", 40 // 6)


def tile_edge(head: int, groups: int) -> int:
    return 0 if head >= 4 else head // groups


MUTANTS = (
    Mutant("GQA-05", "in decode steps the tile over a group's edge reads KV head 0", reading(tile_edge),
           words("merged_attn.scores merged_attn.context"), words("scores.kv_heads context.kv_heads"), STEPS),
    Mutant("GQA-10", "in decode steps KV heads tiled", reading(tiled),
           words("merged_attn.scores merged_attn.context"), words("scores.kv_heads_tiled context.kv_heads_tiled"),
           STEPS),
    Mutant("PRJ-02", "head_dim from hidden / heads", narrow_heads, attention("q_norm k_norm"), REFUSED, BOTH[:1]),
    Mutant("PRJ-04/values", "values viewed by heads without a transpose", projected("value_heads", scrambled),
           SPLIT_V, words("cache.head_layout context.head_layout"), BOTH),
    Mutant("PRJ-09", "fused rows of each group read as [Q; K; V]", weights(fused_as_blocks),
           frozenset(tap for tap in QKV if tap.startswith("merged")), words("weight.fused_layout weight.unknown"),
           BOTH[:3]),
    Mutant("PRJ-10", "K reads the last rows of Q", weights(k_reads_q),
           words("merged_attn.k_proj merged_attn.encoder_k_proj"),
           words("weight.other_tensor weight.other_rows weight.fused_layout weight.unknown"), BOTH[:3]),
    Mutant("PRJ-12", "one head's projection for all heads", weights(one_head_for_all), words("merged_attn.q_proj"),
           words("weight.heads_shuffled"), BOTH[:3]),
    Mutant("own/weight-element", "one element of one weight", weights(one_element, slice(1, 2)),
           words("merged_attn.k_proj merged_attn.encoder_k_proj"), words("weight.unknown fit.concentrated"), BOTH[:3]),
    Mutant("own/weight-row", "the last row of v_proj is 0", weights(last_row_lost),
           words("merged_attn.v_proj merged_attn.encoder_v_proj"), words("weight.unknown fit.concentrated"), BOTH[:3]),
)  # fmt: skip
