"""Wrong scores, probabilities and contexts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.mutants.mutant import Mutant, Seed, words
from detection.mutants.mutant import attention as taps
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec import masks
from qwen3_encdec.attention import ProjectedAttention

BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
SCORES = taps("scores")
PROBS = taps("probs")
CONTEXT = taps("context")


def scaled(change: Callable[[Any], float], layers: slice = slice(None)) -> Seed:
    """`change(attention)` is the factor of the scores."""

    def seed(patch: Patch) -> None:
        for attn in patch.attentions()[layers]:
            patch.setattr(attn, "scaling", change(attn))

    return seed


def scores_by(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """`change` of the scores `[batch, heads, query, key]`."""
    return lambda patch: patch.function(code.scaled_scores, lambda plain, *args: change(plain(*args)))


def softmax_by(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Seed:
    """`function(scores, additive mask)` in the place of the softmax."""

    def around(plain: Any, scores: torch.Tensor, mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return function(scores, mask).to(dtype)

    return lambda patch: patch.function(code.probabilities, around)


def probs_by(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """`change` of the probabilities."""
    return lambda patch: patch.function(code.probabilities, lambda plain, *args: change(plain(*args)))


def values_by(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """`change` of the values that the probabilities weight."""
    return lambda patch: patch.function(
        code.weighted_values, lambda plain, probs, value, groups: plain(probs, change(value), groups)
    )


def scaled_before_norm(patch: Patch) -> None:
    def heads(m: Any, projected: torch.Tensor) -> Any:
        return m.q_norm(m._split_heads(projected) * m.head_dim**-0.5).transpose(1, 2)

    patch.setattr(ProjectedAttention, "query_heads", heads)
    scaled(lambda attn: 1.0)(patch)


def dropping(patch: Patch) -> None:
    for attn in patch.attentions():
        patch.setattr(attn, "training", True)
        patch.setattr(attn, "attention_dropout", 0.1)


def distance_bias(scores: torch.Tensor) -> torch.Tensor:
    return scores - 0.01 * torch.arange(scores.shape[-1]).flip(0)


def one_head(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The change in the second head alone."""
    return lambda x: torch.cat((x[:, :1], change(x[:, 1:2]), x[:, 2:]), 1)


def transposed(scores: torch.Tensor) -> torch.Tensor:
    return scores.transpose(2, 3) if scores.shape[2] == scores.shape[3] else scores


def infinite(patch: Patch) -> None:
    def around(plain: Any, visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(visible.shape, dtype=dtype).masked_fill(~visible, -torch.inf)

    patch.function(masks.additive_mask, around)


def no_maximum(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    powers = (scores + mask).float().exp()
    return powers / powers.sum(-1, keepdim=True)


def masked_after(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return scores.softmax(-1) * (mask == 0)


def over_queries(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (scores + mask).softmax(2)


def with_sink(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    sink = torch.zeros_like(scores[..., :1])
    return torch.cat((scores + mask, sink), -1).softmax(-1)[..., :-1]


def by_twos(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (scores * torch.log(torch.tensor(2.0)) + mask).softmax(-1)


def sigmoid(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return scores.sigmoid() * (mask == 0)


def unscaled_blocks(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Blocks of 4 keys whose earlier sums are not scaled when a later block has a larger maximum."""
    masked = scores + mask
    running = torch.cat([b.amax(-1, keepdim=True) for b in torch.split(masked, 4, -1)], -1).cummax(-1).values
    powers = (masked - running.repeat_interleave(4, -1)[..., : masked.shape[-1]]).exp()
    return powers / powers.sum(-1, keepdim=True)


def narrow(dtype: torch.dtype) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        low = scores.to(dtype).masked_fill(mask != 0, torch.finfo(dtype).min)
        return low.softmax(-1)

    return softmax


def with_epsilon(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    masked = scores + mask
    powers = (masked - masked.amax(-1, keepdim=True)).exp()
    return powers / (powers.sum(-1, keepdim=True) + 1e-5)


def last_key_lost(probs: torch.Tensor) -> torch.Tensor:
    """The keys behind the last whole tile of 4, in rows longer than one."""
    tail = probs.shape[-1] % 4 if probs.shape[-1] > 4 else 0
    return probs if not tail else torch.cat((probs[..., :-tail], probs[..., -tail:] * 0), -1)


def small_lost(probs: torch.Tensor) -> torch.Tensor:
    return probs.masked_fill(probs < 1e-2, 0)


def last_row_uniform(probs: torch.Tensor) -> torch.Tensor:
    seen = probs[:, :, -1:] > 0
    return torch.cat((probs[:, :, :-1], seen / seen.sum(-1, keepdim=True)), 2)


MUTANTS = (
    Mutant("SCL-01", "1 / √hidden", scaled(lambda a: a.config.hidden_size**-0.5), SCORES, words("scores.scale"), BOTH),
    Mutant("SCL-02", "1 / √(hidden / heads)", scaled(lambda a: (40 / 6) ** -0.5), SCORES, words("scores.scale"), BOTH),
    Mutant("SCL-04", "scaled twice", scaled(lambda a: 1 / a.head_dim), SCORES, words("scores.scale"), BOTH),
    Mutant("SCL-05", "queries scaled before their norm", scaled_before_norm, taps("q_norm scores"),
           words("scores.query_scaled_before_norm scores.scale norm.eps"), BOTH),
    Mutant("SCL-06", "no scale", scaled(lambda a: 1.0), SCORES, words("scores.scale"), BOTH),
    Mutant("SCL-08", "scale of the padded width 16", scaled(lambda a: 0.25), SCORES, words("scores.scale"), BOTH),
    Mutant("SMX-01", "no maximum subtracted", softmax_by(no_maximum), PROBS, words("softmax.no_maximum"),
           ("op/softmax_large", "encoder/ragged")),
    Mutant("SMX-02", "softmax in bfloat16", softmax_by(narrow(torch.bfloat16)), PROBS,
           words("softmax.half_precision fit.grid"), (*BOTH, "op/softmax_many_keys")),
    Mutant("SMX-04", "hidden keys at -inf", infinite, words("self_attn.probs"), words("softmax.infinite_mask"),
           ("encoder/ragged",)),
    Mutant("SMX-06", "mask after the softmax", softmax_by(masked_after), PROBS, words("softmax.mask_after"), BOTH),
    Mutant("SMX-08", "blocks not scaled to a later maximum", softmax_by(unscaled_blocks), PROBS,
           words("softmax.unscaled_blocks"), (*BOTH, "op/softmax_many_keys")),
    Mutant("SMX-09", "dropout left on", dropping, PROBS, words("softmax.dropout fit.dropout"), BOTH),
    Mutant("own/scale-near", "scale off by 1e-3", scaled(lambda a: a.scaling * 1.001), SCORES,
           words("scores.scale fit.factor"), BOTH),
    Mutant("own/scale-root", "times √head_dim", scaled(lambda a: a.head_dim**0.5), SCORES, words("scores.scale"), BOTH),
    Mutant("own/scale-all-heads", "1 / √(heads · head_dim)", scaled(lambda a: 60**-0.5), SCORES,
           words("scores.scale fit.factor"), BOTH),
    Mutant("own/scale-one-layer", "scale forgotten in the encoder's first layer", scaled(lambda a: 1.0, slice(1)),
           words("self_attn.scores"), words("scores.scale"), (BOTH[0], BOTH[3])),
    Mutant("own/scores-softcap", "soft cap 30", scores_by(lambda s: 30 * (s / 30).tanh()), SCORES,
           words("scores.softcap"), BOTH),
    Mutant("own/scores-clamped", "clamped to ±5", scores_by(lambda s: s.clamp(-5, 5)), SCORES, words("scores.clamped"),
           BOTH),
    Mutant("own/scores-bias", "a bias by distance", scores_by(distance_bias), SCORES, words("scores.extra_bias"), BOTH),
    Mutant("own/scores-transposed", "queries and keys exchanged", scores_by(transposed), words("self_attn.scores"),
           words("scores.transposed"), (BOTH[0], BOTH[3])),
    Mutant("own/scores-one-head", "one head without scale", scores_by(one_head(lambda s: s * 10**0.5)), SCORES,
           words("scores.scale fit.concentrated"), BOTH),
    Mutant("own/scores-bfloat16", "scores rounded to bfloat16", scores_by(lambda s: s.bfloat16().float()), SCORES,
           words("fit.grid scores.half_precision"), BOTH),
    Mutant("own/softmax-queries", "over the queries", softmax_by(over_queries), PROBS, words("softmax.axis"), BOTH),
    Mutant("own/softmax-temperature", "temperature 1.1", softmax_by(lambda s, m: (s / 1.1 + m).softmax(-1)), PROBS,
           words("softmax.temperature"), BOTH),
    Mutant("own/softmax-sink", "1 more in the denominator", softmax_by(with_sink), PROBS, words("softmax.sink"), BOTH),
    Mutant("own/softmax-twos", "powers of 2", softmax_by(by_twos), PROBS,
           words("softmax.other_function softmax.temperature"), BOTH),
    Mutant("own/softmax-sigmoid", "sigmoid", softmax_by(sigmoid), PROBS, words("softmax.other_function"), BOTH),
    Mutant("own/softmax-epsilon", "1e-5 in the denominator", softmax_by(with_epsilon), PROBS, words("softmax.epsilon"),
           BOTH),
    Mutant("own/softmax-float16", "softmax in float16", softmax_by(narrow(torch.float16)), PROBS,
           words("softmax.half_precision fit.grid"), BOTH),
    Mutant("own/softmax-one-head", "one head cooler",
           probs_by(one_head(lambda p: p.pow(1.1) / p.pow(1.1).sum(-1, keepdim=True))), PROBS,
           words("softmax.temperature fit.concentrated"), BOTH),
    Mutant("own/probs-tail", "keys behind the last whole tile lost", probs_by(last_key_lost), PROBS,
           words("softmax.tail_lost fit.concentrated"), BOTH),
    Mutant("own/probs-small", "probabilities below 1 % dropped", probs_by(small_lost), PROBS,
           words("softmax.small_dropped fit.dropout"), BOTH),
    Mutant("own/probs-last-row", "the last query uniform", probs_by(last_row_uniform), PROBS,
           words("fit.concentrated softmax.uniform"), BOTH),
    Mutant("own/context-bfloat16", "values in bfloat16", values_by(lambda v: v.bfloat16().float()), CONTEXT,
           words("context.half_precision"), BOTH),
    Mutant("own/context-late", "the next key's values", values_by(lambda v: v.roll(1, 2)), CONTEXT,
           words("fit.shift context.shifted"), BOTH),
    Mutant("own/context-negative", "values negated", values_by(torch.neg), CONTEXT, words("fit.factor"), BOTH),
    Mutant("own/context-channel", "the last channel of values is 0",
           values_by(lambda v: torch.cat((v[..., :-1], v[..., -1:] * 0), -1)), CONTEXT,
           words("fit.channel_factor fit.concentrated"), BOTH),
)  # fmt: skip
