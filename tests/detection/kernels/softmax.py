"""Bugs of softmax: online over blocks of keys, merged from splits, approximated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.kernels.seeds import CONTEXT, PROBS, bug, context, half, probabilities, replaced, running_sum, tail
from qwen3_encdec.attention import repeat_kv

Exp = Callable[[torch.Tensor], torch.Tensor]


def parts_of(scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    masked = scores if mask is None else scores + mask
    return masked - masked.amax(-1, keepdim=True)


def softmax(exp: Exp, total: Callable[[torch.Tensor], torch.Tensor] = lambda e: e.sum(-1)) -> Any:
    """A softmax with its own exponential of what is at most 0, and its own sum."""

    def kernel(plain: Any, scores: Any, mask: Any, dtype: Any) -> Any:
        weights = exp(parts_of(scores, mask).clamp(min=-80.0)) * (parts_of(scores, mask) > -80.0)
        return weights / total(weights)[..., None]

    return kernel


def online(block: int, accumulator: bool, total: bool) -> Any:
    """The context over blocks of keys, with or without a rescale when a later block has a larger maximum."""

    def kernel(plain: Any, probs: Any, v: Any, groups: int) -> Any:
        scores, values = probs.clamp(min=1e-30).log(), repeat_kv(v, groups)
        biggest = torch.full_like(scores[..., :1], -1e4)
        summed, out = torch.zeros_like(biggest), torch.zeros(*scores.shape[:-1], values.shape[-1])
        for part, block_values in zip(torch.split(scores, block, -1), torch.split(values, block, 2), strict=True):
            new = torch.maximum(biggest, part.amax(-1, keepdim=True))
            scale, weights = torch.where(biggest > -1e3, (biggest - new).exp(), 1.0), (part - new).exp()
            summed = summed * (scale if total else 1.0) + weights.sum(-1, keepdim=True)
            out = out * (scale if accumulator else 1.0) + weights @ block_values
            biggest = new
        return (out / summed).transpose(1, 2).contiguous()

    return kernel


def merged(weigh: Callable[[torch.Tensor, torch.Tensor], tuple[Any, Any]]) -> Any:
    """The keys in two splits, each normalised by itself, merged by `weigh(sum, sum)`."""

    def kernel(plain: Any, probs: Any, v: Any, groups: int) -> Any:
        keys, values = (probs.shape[-1] + 1) // 2, repeat_kv(v, groups)
        halves = [(probs[..., :keys], values[:, :, :keys]), (probs[..., keys:], values[:, :, keys:])]
        sums = [p.sum(-1, keepdim=True) for p, _ in halves]
        outs = [(p @ x) / s.clamp(min=1e-30) for (p, x), s in zip(halves, sums, strict=True)]
        first, second = weigh(*sums)
        return (first * outs[0] + second * outs[1]).transpose(1, 2).contiguous()

    return kernel


def schraudolph(x: torch.Tensor) -> torch.Tensor:
    """2 ** x by writing into the exponent's bits, as fast exponentials do."""
    return (x * 12102203.0 + 1064866805.0).to(torch.int32).view(torch.float32)


def cubic(x: torch.Tensor) -> torch.Tensor:
    """2 ** n times a polynomial of degree 2 for the rest."""
    y = x * 1.4426950408889634
    n = y.floor()
    f = y - n
    return torch.exp2(n) * (1 + f * (0.6565 + 0.3435 * f))


MUTANTS = (
    bug("online-accumulator", "online softmax: the accumulator is not rescaled when a later block has a larger maximum",
        replaced(context, online(4, False, True)), CONTEXT),
    bug("online-sum", "online softmax: the sum is not rescaled when a later block has a larger maximum",
        replaced(context, online(4, True, False)), CONTEXT),
    bug("online-neither", "online softmax over blocks of 2: neither sum nor accumulator is rescaled",
        replaced(context, online(2, False, False)), CONTEXT),
    bug("split-exchanged", "two splits of the keys are merged with each other's weights",
        replaced(context, merged(lambda a, b: (b, a))), CONTEXT),
    bug("split-equal", "two splits of the keys are averaged, whatever their sums",
        replaced(context, merged(lambda a, b: (0.5, 0.5))), CONTEXT),
    bug("split-unweighted", "two splits of the keys are added, each as if it were all",
        replaced(context, merged(lambda a, b: (1.0, 1.0))), CONTEXT),
    bug("softmax-sum-one", "the sum of the softmax starts at 1, not at 0",
        replaced(probabilities, softmax(torch.exp, lambda e: e.sum(-1) + 1)), PROBS),
    bug("softmax-tail-not-summed", "keys beyond whole blocks of 4 are missing in the softmax's sum",
        replaced(probabilities, softmax(torch.exp, lambda e: (e.sum(-1) - tail(e, -1, 4).sum(-1)).clamp(min=1e-3))),
        PROBS),
    bug("softmax-tail-summed-twice", "keys beyond whole blocks of 4 are counted twice in the softmax's sum",
        replaced(probabilities, softmax(torch.exp, lambda e: e.sum(-1) + tail(e, -1, 4).sum(-1))), PROBS),
    bug("softmax-exp-bits", "exp by the bits of the exponent (Schraudolph)",
        replaced(probabilities, softmax(schraudolph)), PROBS),
    bug("softmax-exp-polynomial", "exp by a power of two and a polynomial of degree 2",
        replaced(probabilities, softmax(cubic)), PROBS),
    bug("softmax-exp-float16", "exp in float16",
        replaced(probabilities, softmax(lambda x: half(torch.float16)(x.exp()))),
        PROBS),
    bug("softmax-bfloat16-sum", "the softmax's sum is accumulated in bfloat16",
        replaced(probabilities, softmax(torch.exp, lambda e: running_sum(e, torch.bfloat16))), PROBS),
    bug("softmax-log2e", "exp2 of scores times 1.44 for log2(e)",
        replaced(probabilities, softmax(lambda x: torch.exp2(x * 1.44))), PROBS),
)  # fmt: skip
