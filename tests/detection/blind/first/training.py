"""The ways back of others: losses averaged otherwise, and backward kernels that forget a factor, a term or a sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.first.norms import BLOCK, norms
from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec import modeling_qwen3_encdec

Back = Callable[..., tuple[torch.Tensor, torch.Tensor]]
"""`back(g, x, weight, r)`: gradients of a norm's x and weight, by that of its output and the reciprocal RMS."""


def x_gradient(g: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    """As it is derived."""
    return g * weight * r - r**3 * x * (g * weight * x).mean(-1, keepdim=True)


def weight_gradient(g: torch.Tensor, x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    return (g * x * r).flatten(0, -2).sum(0)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, eps: float, back: Back) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps, ctx.back = eps, back
        return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + ctx.eps)
        return (*ctx.back(gradients[0], x, weight, r), None, None)


def backward(back: Back) -> Seed:
    """The decoder's block norms and its final one go back by `back`."""
    apply: Any = _Norm.apply
    return norms(lambda norm, x: apply(x, norm.weight, norm.variance_epsilon, back), "norm", *BLOCK)


def variance_term_twice(g: Any, x: Any, weight: Any, r: Any) -> Any:
    return g * weight * r - weight * r**3 * x * (g * weight * x).mean(-1, keepdim=True), weight_gradient(g, x, r)


def without_weight(g: Any, x: Any, weight: Any, r: Any) -> Any:
    return x_gradient(g, x, torch.ones_like(weight), r), weight_gradient(g, x, r)


def weight_untrained(g: Any, x: Any, weight: Any, r: Any) -> Any:
    return x_gradient(g, x, weight, r), torch.zeros_like(weight)


def weight_by_overwritten(g: Any, x: Any, weight: Any, r: Any) -> Any:
    given_back = x_gradient(g, x, weight, r)
    return given_back, weight_gradient(given_back, x, r)


def variance_saved(g: Any, x: Any, weight: Any, r: Any) -> Any:
    variance = x.pow(2).mean(-1, keepdim=True)
    return x_gradient(g, x, weight, variance), weight_gradient(g, x, variance)


class _Heads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, groups: int, back: Any) -> torch.Tensor:
        ctx.groups, ctx.back = groups, back
        return x.repeat_interleave(groups, dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return ctx.back(gradients[0], ctx.groups), None, None


def heads(back: Callable[[torch.Tensor, int], torch.Tensor]) -> Seed:
    """Repeated KV heads get `back(gradient [batch, heads, key, dim], groups)`."""
    apply: Any = _Heads.apply
    return lambda patch: patch.function(code.repeat_kv, lambda _plain, x, groups: apply(x, groups, back))


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        probs = scores.softmax(-1)
        ctx.save_for_backward(probs)
        return probs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return ctx.saved_tensors[0] * gradients[0]


def sum_missing(patch: Patch) -> None:
    apply: Any = _Softmax.apply
    patch.function(
        code.probabilities,
        lambda _plain, scores, mask, dtype: apply(scores if mask is None else scores + mask).to(dtype),
    )


def loss(mean: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Seed:
    """`mean(costs, counts)` of each row's sum of costs and number of labels, both `[batch]`."""

    def around(logits: torch.Tensor, labels: torch.Tensor, _items: Any = None) -> torch.Tensor:
        flat = logits.float().transpose(1, 2)
        costs = torch.nn.functional.cross_entropy(flat, labels.long(), ignore_index=-100, reduction="none")
        return mean(costs.sum(1), (labels != -100).sum(1))

    return lambda patch: patch.setattr(modeling_qwen3_encdec, "_loss", around)


_CASES, _LOSS = "training/tied training/causal", "loss gradient.logits"
_STREAM = "gradient.output gradient.attn_residual gradient.decoder.embed_tokens"
_STREAM_TOO = "gradient.shared.weight gradient.encoder.norm"
_WEIGHTS = "gradient.input_layernorm.weight gradient.post_attention_layernorm.weight gradient.decoder.norm.weight"
_KV = "gradient.merged_attn.k_rope gradient.merged_attn.v_proj gradient.self_attn.k_rope gradient.self_attn.v_proj"
_ATTENTIONS = ("merged_attn", "self_attn")
_BEHIND = (
    *(f"gradient.merged_attn.encoder_{name}" for name in ("k_rope", "k_norm", "k_proj", "v_proj")),
    *_STREAM.split(),
    *("gradient.encoder.embed_tokens", "gradient.input_layernorm", "gradient.input_layernorm.weight"),
    *_STREAM_TOO.split(),
)
"""What a gradient within attention, which is not recorded, is seen at."""


def _too(*names: str) -> str:
    return " ".join((*_BEHIND, *(f"gradient.{attention}.{name}" for attention in _ATTENTIONS for name in names)))


_KV_TOO = _too("k_norm", "k_proj", "k_norm.weight", "k_proj.weight", "v_proj.weight")
_QK_TOO = _too(
    *("q_rope", "q_norm", "q_proj", "k_rope", "k_norm", "k_proj"),
    *("q_norm.weight", "q_proj.weight", "k_norm.weight", "k_proj.weight"),
)

ROWS = (
    row("B099", "the loss is the mean of the rows' means", "meta-pytorch/torchtune#1875", "loss", _CASES,
        loss(lambda costs, counts: (costs / counts.clamp(min=1)).mean()), _LOSS),
    row("B100", "the loss is divided by the number of sentences", "OpenNMT/OpenNMT-py#526", "loss", _CASES,
        loss(lambda costs, counts: costs.sum() / len(counts)), _LOSS),
    row("B101", "the norm's way back has the weight twice in the term of the variance", "NVIDIA/Megatron-LM#6859",
        "backward", _CASES, backward(variance_term_twice), _STREAM, also=_STREAM_TOO),
    row("B102", "the norm's way back forgets the weight", "karpathy/llm.c#763", "backward", _CASES,
        backward(without_weight), _STREAM, also=_STREAM_TOO),
    row("B103", "the norm's kernel returns no gradient of its weight", "unslothai/unsloth#4533", "backward", _CASES,
        backward(weight_untrained), _WEIGHTS),
    row("B104", "the weight's gradient reads a buffer that x's gradient has overwritten", "unslothai/unsloth#4550",
        "backward", _CASES, backward(weight_by_overwritten), _WEIGHTS),
    row("B105", "the norm's forward keeps the variance where its way back reads 1 / RMS", "flagos-ai/FlagGems#5771",
        "backward", _CASES, backward(variance_saved), f"{_STREAM} {_WEIGHTS}", also=_STREAM_TOO),
    row("B106", "keys and values get the gradient of their group's first query head alone",
        "marin-community/levanter#449", "backward", _CASES, heads(lambda g, groups: g[:, ::groups]), _KV,
        also=_KV_TOO),
    row("B107", "the way back maps query heads to KV heads by the remainder",
        "XunhaoLai/native-sparse-attention-triton#27", "backward", _CASES,
        heads(lambda g, groups: torch.unflatten(g, 1, (groups, -1)).sum(1)), _KV, also=_KV_TOO),
    row("B108", "the softmax's way back lacks the row's sum", "Dao-AILab/flash-attention#2481", "backward", _CASES,
        sum_missing, "gradient.merged_attn.scores gradient.self_attn.scores", also=_QK_TOO),
)  # fmt: skip
