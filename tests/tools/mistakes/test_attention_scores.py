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


def sloped(q: torch.Tensor, k: torch.Tensor, split: int) -> torch.Tensor:
    slopes = 2.0 ** -torch.arange(1.0, q.shape[1] + 1)
    distance = torch.arange(split - q.shape[2], split)[:, None] - torch.arange(split)
    bias = torch.zeros(q.shape[1], q.shape[2], k.shape[2])
    bias[..., :split] = -slopes[:, None, None] * distance
    return dot(q, k) + bias


SCORES: dict[str, tuple[str, Scores]] = {
    "no scaling": ("scores.scale", lambda q, k, split: dot(q, k, 1.0)),
    "hidden size": ("scores.scale", lambda q, k, split: dot(q, k, 40**-0.5)),
    "twice": ("scores.scale", lambda q, k, split: dot(q, k, 0.1)),
    "an unheard-of factor": ("scores.scale", lambda q, k, split: dot(q, k, 0.3171)),
    "tiled": ("scores.kv_heads_tiled", lambda q, k, split: q @ k.repeat(1, 3, 1, 1).transpose(-1, -2) * 10**-0.5),
    "head 0": ("scores.kv_heads", lambda q, k, split: dot(q, k[:, :1])),
    "an unheard-of head map": ("scores.kv_heads", lambda q, k, split: q @ k[:, [0, 1, 1, 1, 0, 0]].mT * 10**-0.5),
    "encoder first": ("scores.halves_exchanged",
                      lambda q, k, split: dot(q, torch.cat((k[:, :, split:], k[:, :, :split]), 2))),
    "soft cap": ("scores.softcap", lambda q, k, split: 5 * torch.tanh(dot(q, k) / 5)),
    "an unheard-of cap": ("scores.softcap", lambda q, k, split: 3.3 * torch.tanh(dot(q, k) / 3.3)),
    "cut off": ("scores.clamped", lambda q, k, split: dot(q, k).clamp(-2, 2)),
    "in bfloat16": ("scores.half_precision", lambda q, k, split: dot(q, k).bfloat16().float()),
    "bfloat16 operands": ("scores.half_precision", lambda q, k, split: dot(q.bfloat16().float(), k.bfloat16().float())),
    "slopes": ("scores.extra_bias", sloped),
    "other queries": ("scores.query_heads", lambda q, k, split: dot(q.roll(1, 1), k)),
    "float32": ("right", lambda q, k, split: dot(q, k)),
}  # fmt: skip


def of(numbers: Scores) -> Wrong:
    return lambda site: numbers(*operands(site)).numpy()


test_wrong_scores_are_named = named({key: (n, CASE, f"{ATTENTION}.scores", of(w)) for key, (n, w) in SCORES.items()})


def filled(s: torch.Tensor, mask: torch.Tensor, fill: float = torch.finfo(torch.float32).min) -> torch.Tensor:
    return torch.where(mask, s, s + fill)


def halves(s: torch.Tensor, mask: torch.Tensor, split: int) -> tuple[torch.Tensor, torch.Tensor]:
    whole = filled(s, mask)
    return whole[..., :split].softmax(-1), whole[..., split:].softmax(-1)


def dropped(p: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.nn.functional.dropout(p, 0.25)


def sink(s: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    e = filled(s, mask).exp()
    return e / (1 + e.sum(-1, keepdim=True))


def after(s: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return s.softmax(-1) * mask


PROBS: dict[str, tuple[str, Probs]] = {
    "no mask": ("softmax.no_mask", lambda s, m, split: s.softmax(-1)),
    "mask afterwards": ("softmax.mask_after", lambda s, m, split: after(s, m)),
    "mask times scores": ("softmax.mask_multiplied", lambda s, m, split: (s * m).softmax(-1)),
    "mask added as 1": ("softmax.boolean_added", lambda s, m, split: (s + m).softmax(-1)),
    "minus 10": ("softmax.weak_mask", lambda s, m, split: filled(s, m, -10.0).softmax(-1)),
    "minus 3.7": ("softmax.weak_mask", lambda s, m, split: filled(s, m, -3.7).softmax(-1)),
    "over queries": ("softmax.axis", lambda s, m, split: filled(s, m).softmax(-2)),
    "two halves": ("softmax.two_halves", lambda s, m, split: torch.cat(halves(s, m, split), -1)),
    "gated halves": ("softmax.two_halves",
                     lambda s, m, split: torch.cat((0.3 * halves(s, m, split)[0], 0.7 * halves(s, m, split)[1]), -1)),
    "a sink": ("softmax.sink", lambda s, m, split: sink(s, m)),
    "temperature": ("softmax.temperature", lambda s, m, split: (filled(s, m) * 0.1**0.5).softmax(-1)),
    "an unheard-of temperature": ("softmax.temperature", lambda s, m, split: filled(s * 1.37, m).softmax(-1)),
    "base 2": ("softmax.temperature", lambda s, m, split: filled(s * np.log(2).item(), m).softmax(-1)),
    "in bfloat16": ("softmax.half_precision", lambda s, m, split: filled(s, m).softmax(-1).bfloat16().float()),
    "sigmoid": ("softmax.other_function", lambda s, m, split: filled(s, m).sigmoid()),
    "twice": ("softmax.normalised_twice", lambda s, m, split: filled(filled(s, m).softmax(-1), m).softmax(-1)),
    "not divided": ("softmax.not_normalised",
                    lambda s, m, split: (filled(s, m) - filled(s, m).amax(-1, keepdim=True)).exp()),
    "dropout": ("softmax.dropout", lambda s, m, split: dropped(filled(s, m).softmax(-1))),
    "a bias of the key": ("scores.extra_bias",
                          lambda s, m, split: filled(s + torch.arange(s.shape[-1]).sin(), m).softmax(-1)),
    "the row before": ("mask.other_row", lambda s, m, split: filled(s, m.roll(1, 0)).softmax(-1)),
    "memory left out": ("softmax.half_missing",
                        lambda s, m, split: filled(s, m & (torch.arange(s.shape[-1]) < split)).softmax(-1)),
    "float32": ("right", lambda s, m, split: torch.where(m, filled(s, m).softmax(-1), 0)),
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
    "tiled": ("context.kv_heads_tiled", lambda p, v, split: (p @ v.repeat(1, 3, 1, 1)).transpose(1, 2)),
    "next KV head": ("context.kv_heads", lambda p, v, split: weighed(p, v.flip(1))),
    "an unheard-of head map": ("context.kv_heads", lambda p, v, split: (p @ v[:, [0, 1, 1, 1, 0, 0]]).transpose(1, 2)),
    "heads innermost": ("context.head_order",
                        lambda p, v, split: weighed(p, v).transpose(2, 3).flatten(2).unflatten(2, (6, 10))),
    "not transposed": ("context.head_layout", lambda p, v, split: untransposed(p, v)),
    "heads 3 and 4 exchanged": ("context.head_order", lambda p, v, split: weighed(p, v)[:, :, [0, 1, 2, 4, 3, 5]]),
    "memory left out": ("context.half_missing", lambda p, v, split: weighed(p[..., :split], v[:, :, :split])),
    "encoder first": ("context.halves_exchanged",
                      lambda p, v, split: weighed(p, torch.cat((v[:, :, split:], v[:, :, :split]), 2))),
    "one slot late": ("context.shifted", lambda p, v, split: weighed(p, v.roll(1, 2))),
    "bfloat16 weights": ("context.half_precision", lambda p, v, split: weighed(p.bfloat16().float(), v)),
    "negated": ("context.scaled", lambda p, v, split: -weighed(p, v)),
    "float32": ("right", lambda p, v, split: weighed(p, v)),
}  # fmt: skip
test_a_wrong_context_is_named = named(
    {key: (n, CASE, f"{ATTENTION}.context", of(w)) for key, (n, w) in CONTEXT.items()}
)


def test_an_explanation_says_which_factor() -> None:
    tap_evidence = evidence(CASE, f"{ATTENTION}.scores", lambda site: dot(*operands(site)[:2], 40**-0.5).numpy())
    assert "hidden_size ** -0.5" in explanations(tap_evidence)[0].says
