"""Attention between projections: scores, softmax, and which keys take part."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from detection.mutants.cache_seeds import Pair
from detection.mutants.heads import reading, tiled
from detection.mutants.mutant import Seed, attention
from detection.mutants.patch import Patch
from detection.unseen.row import row
from qwen3_encdec import attention as code

_STEPS = "decoder/ragged_decode"


def _softmax_of(factor: float) -> Seed:
    """The softmax of masked scores times a factor."""

    def around(plain: Any, scores: torch.Tensor, mask: Any, dtype: torch.dtype) -> Any:
        return plain((scores if mask is None else scores + mask) * factor, None, dtype)

    return lambda patch: patch.function(code.probabilities, around)


def _scaled(scale: Any) -> Seed:
    """Every attention's scale, as `scale(stack, attention)`."""

    def seed(patch: Patch) -> None:
        for stack in ("encoder", "decoder"):
            for attn in patch.attentions(stack):
                patch.setattr(attn, "scaling", scale(getattr(patch.model, stack), attn))

    return seed


def _keys_of_row_0(plain: Any, q: torch.Tensor, k: torch.Tensor, *rest: Any) -> Any:
    return plain(q, k[:1].expand_as(k), *rest)


def _alibi(plain: Any, q: torch.Tensor, k: torch.Tensor, *rest: Any) -> Any:
    heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
    return plain(q, k, *rest) - slopes[:, None, None] * distance


def _page_dropped(plain: Any, scores: torch.Tensor, mask: Any, dtype: torch.dtype) -> Any:
    keys = scores.shape[-1]
    if scores.shape[2] > 1 or keys % 4:
        return plain(scores, mask, dtype)
    return functional.pad(plain(scores[..., :-4], None if mask is None else mask[..., :-4], dtype), (0, 4))


def _tail_not_masked(patch: Patch) -> None:
    """Behind the keys of a step stand, up to a whole page, the first of the attention that ran before."""
    now: dict[str, Any] = {}
    left: list[Pair] = []
    plain = code.scaled_scores, code.probabilities, code.weighted_values

    def scores(q: torch.Tensor, k: torch.Tensor, *rest: Any) -> torch.Tensor:
        now.update(q=q, k=k, rest=rest)
        return plain[0](q, k, *rest)

    def probs(raw: torch.Tensor, mask: Any, dtype: torch.dtype) -> torch.Tensor:
        keys = raw.shape[-1]
        tail = -keys % 4 if left and raw.shape[2] == 1 else 0
        more = plain[0](now["q"], left[0][0][:, :, :tail], *now["rest"]) if tail else raw[..., :0]
        mask = None if mask is None else functional.pad(mask, (0, tail))
        both = plain[1](torch.cat((raw, more), -1), mask, dtype)
        now["more"] = both[..., keys:]
        return both[..., :keys]

    def weighted(raw: torch.Tensor, values: torch.Tensor, groups: int) -> torch.Tensor:
        tail = now["more"].shape[-1]
        context = plain[2](raw, values, groups)
        if tail:
            context = context + plain[2](now["more"], left[0][1][:, :, :tail], groups)
        left[:] = [(now["k"], values)]
        return context

    for name, value in (("scaled_scores", scores), ("probabilities", probs), ("weighted_values", weighted)):
        patch.setattr(code, name, value)


ROWS = (
    row("S3", "the decode kernel maps query head h to KV head h % kv_heads", reading(tiled),
        "merged_attn.scores merged_attn.context", ["scores.kv_heads_tiled", "context.kv_heads_tiled"], _STEPS, "layer"),
    row("S5", "the tail of the last page of 4 is not masked: keys and values that the call before left",
        _tail_not_masked,
        "merged_attn.probs merged_attn.context", ["invariant.rows_sum", "*: sums? to|multiple of 4"], "decoder/plain",
        "layer"),
    row("S6", "the last page is dropped when the length is a multiple of the page of 4",
        lambda patch: patch.function(code.probabilities, _page_dropped), "merged_attn.probs",
        ["invariant.visible_zero", "*: multiple of 4"], "decoder/plain", "layer"),
    row("S16", "the batch stride of K is 0: every row scores against the keys of row 0",
        lambda patch: patch.function(code.scaled_scores, _keys_of_row_0), attention("scores"),
        ["wiring.other_row", "cache.other_row: first batch row", "from.other_row: row 0|first row"],
        "encdec/ragged", "modules"),
    row("X15", "ALiBi is added beside RoPE", lambda patch: patch.function(code.scaled_scores, _alibi),
        "merged_attn.scores", ["*: alibi|(linear|grows|line|slope).*distance|distance.*(linear|slope)"],
        "decoder/plain",
        "layer"),
    row("B3", "YaRN: the softmax scale too is multiplied by attention_factor squared",
        _scaled(lambda stack, attn: attn.scaling * stack.rotary_emb.attention_factor**2), attention("scores"),
        ["scores.scale", "yarn.attention_factor"], "decoder/yarn_stated", "layer"),
    row("I5", "C++: scale = 1 / (int)sqrt(head_dim)", _scaled(lambda _, attn: 1 / int(math.sqrt(attn.head_dim))),
        attention("scores"), ["scores.scale"], "encdec/ragged", "modules"),
    row("C3", "exp2 without log2(e): softmax to the base 2", _softmax_of(math.log(2)), attention("probs"),
        ["softmax.temperature", "*: base 2|exp2"], "encdec/ragged", "layer"),
    row("I4", "LOG2E written as 1.44", _softmax_of(1.44 * math.log(2)), attention("probs"),
        ["softmax.temperature", "*: 1\\.44"], "encdec/ragged", "layer"),
)  # fmt: skip
