"""Wrong heads and projections: which head reads which, how heads are split, joined and projected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from detection.mutants.mutant import Mutant, Seed, attention, words
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec.attention import ProjectedAttention

HeadMap = Callable[[int, int], int]
"""`map(head, groups)`: the KV head of a query head."""

BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
STEPS = ("decoder/ragged_decode", "encdec/ragged")
BIASED = ("encdec/qwen2",)
REFUSED = frozenset[str]()
QKV = attention("q_proj k_proj v_proj encoder_k_proj encoder_v_proj")
ATTENDED = attention("scores context")
SPLIT_V = words("merged_attn.cache_values merged_attn.cache_encoder_values self_attn.context")


def reading(chosen: HeadMap, *, keys: bool = True, values: bool = True, decode: bool = False) -> Seed:
    """Query heads that read other KV heads; with `decode` in forwards of one token alone."""

    def repeated(x: torch.Tensor, groups: int) -> torch.Tensor:
        return x[:, [chosen(head, groups) for head in range(x.shape[1] * groups)]]

    def scores(plain: Any, q: Any, k: Any, scaling: float, groups: int) -> Any:
        wrong = keys and not (decode and q.shape[2] > 1)
        return plain(q, repeated(k, groups), scaling, 1) if wrong else plain(q, k, scaling, groups)

    def weighted(plain: Any, probs: Any, v: Any, groups: int) -> Any:
        wrong = values and not (decode and probs.shape[2] > 1)
        return plain(probs, repeated(v, groups), 1) if wrong else plain(probs, v, groups)

    def seed(patch: Patch) -> None:
        patch.function(code.scaled_scores, scores)
        patch.function(code.weighted_values, weighted)

    return seed


def tiled(head: int, groups: int) -> int:
    return head % 2


def scrambled(x: torch.Tensor) -> torch.Tensor:
    """`[batch, heads, seq, dim]` as if `[batch, seq, heads, dim]` had been viewed so, not transposed."""
    return x.transpose(1, 2).reshape(x.shape)


def heads_before_batch(context: torch.Tensor) -> torch.Tensor:
    batch, query, heads, width = context.shape
    mixed = context.transpose(1, 2).reshape(heads, batch, query, width)
    return mixed.permute(1, 2, 0, 3).contiguous()


def projected(method: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    return lambda patch: patch.result(ProjectedAttention, method, change)


def joined(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """`change` of what the attention function returns, `[batch, query, heads, head_dim]`."""
    return lambda patch: patch.function(code.weighted_values, lambda plain, *args: change(plain(*args)))


def into_o(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """`change` of what `o_proj` is given, `[batch, query, channel]`."""

    def seed(patch: Patch) -> None:
        for attn in patch.attentions():
            patch.given(attn.o_proj, change)

    return seed


def after(name: str, change: Callable[[Any], Any]) -> Seed:
    """`change` of what a projection returns."""

    def seed(patch: Patch) -> None:
        for attn in patch.attentions():
            patch.result(attn, name, change)

    return seed


def weights(change: Callable[[Any], None], layers: slice = slice(None)) -> Seed:
    """`change(attention)` of its parameters, in place."""

    def seed(patch: Patch) -> None:
        for attn in patch.attentions("decoder")[layers]:
            for projection in (attn.q_proj, attn.k_proj, attn.v_proj, attn.o_proj):
                patch.change(projection.weight, projection.weight)  # so that undo knows it
            with torch.no_grad():
                change(attn)

    return seed


def no_bias(patch: Patch) -> None:
    for attn in patch.attentions():
        for name in ("q_proj", "k_proj", "v_proj"):
            linear = getattr(attn, name)
            patch.setattr(linear, "forward", lambda x, linear=linear: nn.functional.linear(x, linear.weight))


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


def narrow_products(patch: Patch) -> None:
    """Factors of 10 bits of mantissa, as tensor cores take them."""

    def cut(x: torch.Tensor) -> torch.Tensor:
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)

    for attn in patch.attentions():
        linear = attn.q_proj
        patch.setattr(linear, "forward", lambda x, w=linear.weight: nn.functional.linear(cut(x), cut(w)))


def equal_head_counts(patch: Patch) -> None:
    patch.function(code.repeat_kv, lambda plain, x, groups: x)


def kv_heads_times(patch: Patch) -> None:
    for attn in patch.attentions():
        patch.setattr(attn, "num_key_value_groups", 2)


def narrow_heads(patch: Patch) -> None:
    for attn in patch.attentions():
        patch.setattr(attn, "head_dim", 40 // 6)


def tile_edge(head: int, groups: int) -> int:
    return 0 if head >= 4 else head // groups


MUTANTS = (
    Mutant("GQA-01", "KV heads tiled", reading(tiled), ATTENDED, words("scores.kv_heads_tiled context.kv_heads_tiled"),
           BOTH),
    Mutant("GQA-01/keys", "keys' heads tiled", reading(tiled, values=False), attention("scores"),
           words("scores.kv_heads_tiled"), BOTH),
    Mutant("GQA-01/values", "values' heads tiled", reading(tiled, keys=False), attention("context"),
           words("context.kv_heads_tiled"), BOTH),
    Mutant("GQA-02", "KV heads not repeated", equal_head_counts, ATTENDED, REFUSED, BOTH[:1]),
    Mutant("GQA-04", "repeated by the number of KV heads", kv_heads_times, ATTENDED, REFUSED, BOTH[:1]),
    Mutant("GQA-04/map", "divided by the number of KV heads", reading(lambda head, groups: head // 2 % 2), ATTENDED,
           words("scores.kv_heads context.kv_heads"), BOTH),
    Mutant("GQA-05", "in decode steps the tile over a group's edge reads KV head 0", reading(tile_edge, decode=True),
           words("merged_attn.scores merged_attn.context"), words("scores.kv_heads context.kv_heads"), STEPS),
    Mutant("GQA-10", "in decode steps KV heads tiled", reading(tiled, decode=True),
           words("merged_attn.scores merged_attn.context"), words("scores.kv_heads_tiled context.kv_heads_tiled"),
           STEPS),
    Mutant("own/heads-neighbour-keys", "the neighbour's keys",
           reading(lambda head, groups: 1 - head // groups, values=False), attention("scores"),
           words("scores.kv_heads"), BOTH),
    Mutant("own/heads-neighbour-values", "the neighbour's values",
           reading(lambda head, groups: 1 - head // groups, keys=False), attention("context"),
           words("context.kv_heads"), BOTH),
    Mutant("own/heads-one", "one query head reads the wrong KV head",
           reading(lambda head, groups: (head + (head == 2)) // groups), ATTENDED,
           words("scores.kv_heads context.kv_heads"), BOTH),
    Mutant("PRJ-01", "context viewed as hidden wide", into_o(lambda x: x.reshape(x.shape[0], -1, 40)),
           attention("o_proj"), REFUSED, BOTH[:1]),
    Mutant("PRJ-02", "head_dim from hidden / heads", narrow_heads, attention("q_norm k_norm"), REFUSED, BOTH[:1]),
    Mutant("PRJ-04", "queries viewed by heads without a transpose", projected("query_heads", scrambled),
           attention("q_rope"), words("rope.head_layout"), BOTH),
    Mutant("PRJ-04/values", "values viewed by heads without a transpose", projected("value_heads", scrambled),
           SPLIT_V, words("cache.head_layout context.head_layout"), BOTH),
    Mutant("PRJ-05", "heads before batch when they are joined", joined(heads_before_batch), attention("context"),
           words("context.batch_and_heads"), BOTH),
    Mutant("PRJ-06", "biases of q, k and v not added", no_bias, QKV, words("weight.no_bias fit.channel_offset"),
           BIASED),
    Mutant("PRJ-08", "a bias that the checkpoint does not have",
           after("o_proj", lambda y: y + torch.linspace(-0.1, 0.1, y.shape[-1])), attention("o_proj"),
           words("weight.extra_bias fit.channel_offset"), BOTH),
    Mutant("PRJ-08/constant", "one number added to every channel", after("q_proj", lambda y: y + 0.01),
           attention("q_proj"), words("weight.extra_bias fit.channel_offset"), BOTH),
    Mutant("PRJ-09", "fused rows of each group read as [Q; K; V]", weights(fused_as_blocks),
           frozenset(tap for tap in QKV if tap.startswith("merged")), words("weight.fused_layout weight.unknown"),
           BOTH[:3]),
    Mutant("PRJ-10", "K reads the last rows of Q", weights(k_reads_q),
           words("merged_attn.k_proj merged_attn.encoder_k_proj"),
           words("weight.other_tensor weight.fused_layout weight.unknown"), BOTH[:3]),
    Mutant("PRJ-12", "one head's projection for all heads", weights(one_head_for_all), words("merged_attn.q_proj"),
           words("weight.heads_shuffled"), BOTH[:3]),
    Mutant("own/weight-element", "one element of one weight", weights(one_element, slice(1, 2)),
           words("merged_attn.k_proj merged_attn.encoder_k_proj"), words("weight.unknown fit.concentrated"), BOTH[:3]),
    Mutant("own/weight-row", "the last row of v_proj is 0", weights(last_row_lost),
           words("merged_attn.v_proj merged_attn.encoder_v_proj"), words("weight.unknown fit.concentrated"), BOTH[:3]),
    Mutant("own/linear-10-bits", "products of 10 bits", narrow_products, attention("q_proj"),
           words("linear.half_precision"), BOTH),
    Mutant("own/linear-bfloat16", "result rounded to bfloat16", after("v_proj", lambda y: y.bfloat16().float()),
           attention("v_proj encoder_v_proj"), words("fit.grid linear.half_precision"), BOTH),
    Mutant("own/context-unturned", "context viewed without a transpose",
           joined(lambda x: x.transpose(1, 2).contiguous().reshape(x.shape)), attention("context"),
           words("context.head_layout"), BOTH),
    Mutant("own/context-heads-reversed", "heads joined in reverse", joined(lambda x: x.flip(2)), attention("context"),
           words("context.head_order"), BOTH),
    Mutant("own/context-groups", "heads joined group by group",
           joined(lambda x: x.reshape(*x.shape[:2], 2, 3, -1).transpose(2, 3).flatten(2, 3)), attention("context"),
           words("context.head_order"), BOTH),
    Mutant("own/context-channels", "channels before heads in front of o_proj",
           into_o(lambda x: x.view(*x.shape[:2], -1, 10).transpose(2, 3).flatten(2)), attention("o_proj"),
           words("weight.permuted wiring.layout"), BOTH),
    Mutant("own/context-head-lost", "the last head is 0",
           joined(lambda x: torch.cat((x[:, :, :-1], x[:, :, -1:] * 0), 2)), attention("context"),
           words("fit.concentrated"), BOTH),
    Mutant("own/context-rows", "another row's context", joined(lambda x: x.roll(1, 0)), attention("context"),
           words("fit.shift context.other_row"), BOTH),
)  # fmt: skip
