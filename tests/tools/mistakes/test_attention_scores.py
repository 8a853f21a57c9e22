"""Wrong scores, probabilities and contexts, computed by torch in float32, get the names of their mistakes.

It runs `mistakes.head_maps`, `mistakes.merged_orders`, `mistakes.split_products`, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from wrong_numbers import Wrong, evidence, explanations, named

from qwen3_spec.site import Site

CASE = "encdec/ragged"
ATTENTION = "decoder.layers.1.merged_attn"
Scores = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
Probs = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]


def operands(site: Site) -> tuple[torch.Tensor, torch.Tensor, int]:
    """q, every key repeated for the query heads, and how many keys are the decoder's own."""
    q, keys = torch.tensor(site.inputs[0]), torch.tensor(np.concatenate(site.inputs[1:], axis=2))
    return q, keys, site.inputs[1].shape[2]


def repeated(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def dot(q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    return q @ repeated(k, q.shape[1]).transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)


def sloped(q: torch.Tensor, k: torch.Tensor, own: int) -> torch.Tensor:
    slopes = 2.0 ** -torch.arange(1.0, q.shape[1] + 1)
    distance = torch.arange(own - q.shape[2], own)[:, None] - torch.arange(own)
    bias = torch.zeros(q.shape[1], q.shape[2], k.shape[2])
    bias[..., :own] = -slopes[:, None, None] * distance
    return dot(q, k) + bias


SCORES: dict[str, tuple[str, Scores]] = {
    "no scaling": ("scores.scale", lambda q, k, own: dot(q, k, 1.0)),
    "hidden size": ("scores.scale", lambda q, k, own: dot(q, k, 40**-0.5)),
    "twice": ("scores.scale", lambda q, k, own: dot(q, k, 0.1)),
    "an unheard-of factor": ("scores.scale", lambda q, k, own: dot(q, k, 0.3171)),
    "tiled": ("scores.kv_heads_tiled", lambda q, k, own: q @ k.repeat(1, 3, 1, 1).transpose(-1, -2) * 10**-0.5),
    "head 0": ("scores.kv_heads", lambda q, k, own: dot(q, k[:, :1])),
    "an unheard-of head map": ("scores.kv_heads", lambda q, k, own: q @ k[:, [0, 1, 1, 1, 0, 0]].mT * 10**-0.5),
    "encoder first": ("scores.halves_exchanged",
                      lambda q, k, own: dot(q, torch.cat((k[:, :, own:], k[:, :, :own]), 2))),
    "soft cap": ("scores.softcap", lambda q, k, own: 5 * torch.tanh(dot(q, k) / 5)),
    "an unheard-of cap": ("scores.softcap", lambda q, k, own: 3.3 * torch.tanh(dot(q, k) / 3.3)),
    "cut off": ("scores.clamped", lambda q, k, own: dot(q, k).clamp(-2, 2)),
    "in bfloat16": ("scores.half_precision", lambda q, k, own: dot(q, k).bfloat16().float()),
    "bfloat16 operands": ("scores.half_precision", lambda q, k, own: dot(q.bfloat16().float(), k.bfloat16().float())),
    "slopes": ("scores.extra_bias", sloped),
    "other queries": ("scores.query_heads", lambda q, k, own: dot(q.roll(1, 1), k)),
    "float32": ("right", lambda q, k, own: dot(q, k)),
}  # fmt: skip


def of(numbers: Scores) -> Wrong:
    return lambda site: numbers(*operands(site)).numpy()


test_wrong_scores_are_named = named({key: (n, CASE, f"{ATTENTION}.scores", of(w)) for key, (n, w) in SCORES.items()})


def seen(s: torch.Tensor, mask: torch.Tensor, fill: float = torch.finfo(torch.float32).min) -> torch.Tensor:
    return torch.where(mask, s, s + fill)


def halves(s: torch.Tensor, mask: torch.Tensor, own: int) -> tuple[torch.Tensor, torch.Tensor]:
    whole = seen(s, mask)
    return whole[..., :own].softmax(-1), whole[..., own:].softmax(-1)


def dropped(p: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.nn.functional.dropout(p, 0.25)


def sink(s: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    e = seen(s, mask).exp()
    return e / (1 + e.sum(-1, keepdim=True))


def after(s: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return s.softmax(-1) * mask


PROBS: dict[str, tuple[str, Probs]] = {
    "no mask": ("softmax.no_mask", lambda s, m, own: s.softmax(-1)),
    "mask afterwards": ("softmax.mask_after", lambda s, m, own: after(s, m)),
    "mask times scores": ("softmax.mask_multiplied", lambda s, m, own: (s * m).softmax(-1)),
    "mask added as 1": ("softmax.boolean_added", lambda s, m, own: (s + m).softmax(-1)),
    "minus 10": ("softmax.weak_mask", lambda s, m, own: seen(s, m, -10.0).softmax(-1)),
    "minus 3.7": ("softmax.weak_mask", lambda s, m, own: seen(s, m, -3.7).softmax(-1)),
    "over queries": ("softmax.axis", lambda s, m, own: seen(s, m).softmax(-2)),
    "two halves": ("softmax.two_halves", lambda s, m, own: torch.cat(halves(s, m, own), -1)),
    "gated halves": ("softmax.two_halves",
                     lambda s, m, own: torch.cat((0.3 * halves(s, m, own)[0], 0.7 * halves(s, m, own)[1]), -1)),
    "a sink": ("softmax.sink", lambda s, m, own: sink(s, m)),
    "temperature": ("softmax.temperature", lambda s, m, own: (seen(s, m) * 0.1**0.5).softmax(-1)),
    "an unheard-of temperature": ("softmax.temperature", lambda s, m, own: seen(s * 1.37, m).softmax(-1)),
    "base 2": ("softmax.temperature", lambda s, m, own: seen(s * np.log(2).item(), m).softmax(-1)),
    "in bfloat16": ("softmax.half_precision", lambda s, m, own: seen(s, m).softmax(-1).bfloat16().float()),
    "sigmoid": ("softmax.other_function", lambda s, m, own: seen(s, m).sigmoid()),
    "twice": ("softmax.normalised_twice", lambda s, m, own: seen(seen(s, m).softmax(-1), m).softmax(-1)),
    "not divided": ("softmax.not_normalised",
                    lambda s, m, own: (seen(s, m) - seen(s, m).amax(-1, keepdim=True)).exp()),
    "dropout": ("softmax.dropout", lambda s, m, own: dropped(seen(s, m).softmax(-1))),
    "a bias of the key": ("scores.extra_bias",
                          lambda s, m, own: seen(s + torch.arange(s.shape[-1]).sin(), m).softmax(-1)),
    "the row before": ("mask.other_row", lambda s, m, own: seen(s, m.roll(1, 0)).softmax(-1)),
    "memory left out": ("softmax.half_missing",
                        lambda s, m, own: seen(s, m & (torch.arange(s.shape[-1]) < own)).softmax(-1)),
    "float32": ("right", lambda s, m, own: torch.where(m, seen(s, m).softmax(-1), 0)),
}  # fmt: skip


def masked(site: Site) -> tuple[torch.Tensor, torch.Tensor, int]:
    return torch.tensor(site.inputs[0]), torch.tensor(site.inputs[1].astype(bool))[:, None], site.stop


test_wrong_probabilities_are_named = named(
    {
        key: (name, CASE, f"{ATTENTION}.probs", lambda site, wrong=wrong: wrong(*masked(site)).numpy())
        for key, (name, wrong) in PROBS.items()
    }
)


Context = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]


def weighed(p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (p @ repeated(v, p.shape[1])).transpose(1, 2)


def untransposed(p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = p @ repeated(v, p.shape[1])
    return y.reshape(y.shape[0], y.shape[2], y.shape[1], y.shape[3])


CONTEXT: dict[str, tuple[str, Context]] = {
    "tiled": ("context.kv_heads_tiled", lambda p, v, own: (p @ v.repeat(1, 3, 1, 1)).transpose(1, 2)),
    "next KV head": ("context.kv_heads", lambda p, v, own: weighed(p, v.flip(1))),
    "an unheard-of head map": ("context.kv_heads", lambda p, v, own: (p @ v[:, [0, 1, 1, 1, 0, 0]]).transpose(1, 2)),
    "heads innermost": ("context.head_order",
                        lambda p, v, own: weighed(p, v).transpose(2, 3).flatten(2).unflatten(2, (6, 10))),
    "not transposed": ("context.head_layout", lambda p, v, own: untransposed(p, v)),
    "heads 3 and 4 exchanged": ("context.head_order", lambda p, v, own: weighed(p, v)[:, :, [0, 1, 2, 4, 3, 5]]),
    "memory left out": ("context.half_missing", lambda p, v, own: weighed(p[..., :own], v[:, :, :own])),
    "encoder first": ("context.halves_exchanged",
                      lambda p, v, own: weighed(p, torch.cat((v[:, :, own:], v[:, :, :own]), 2))),
    "one slot late": ("context.shifted", lambda p, v, own: weighed(p, v.roll(1, 2))),
    "bfloat16 weights": ("context.half_precision", lambda p, v, own: weighed(p.bfloat16().float(), v)),
    "negated": ("context.scaled", lambda p, v, own: -weighed(p, v)),
    "float32": ("right", lambda p, v, own: weighed(p, v)),
}  # fmt: skip
test_a_wrong_context_is_named = named(
    {key: (n, CASE, f"{ATTENTION}.context", of(w)) for key, (n, w) in CONTEXT.items()}
)


def test_an_explanation_says_which_factor() -> None:
    found = evidence(CASE, f"{ATTENTION}.scores", lambda site: dot(*operands(site)[:2], 40**-0.5).numpy())
    assert "hidden_size ** -0.5" in explanations(found)[0].says
