"""Ways back of others: a sum that a race cut short, a rotation that is passed by, parts that were joined."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.blind.second.weight_gradients import after_backward
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec import rope

_WARP, _RANKS = 2, 2
"""Keys whose sum one warp adds up; ranks of a tensor-parallel group."""


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        probs = scores.softmax(-1)
        ctx.save_for_backward(probs)
        return probs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """The second warp's sum is set to 0 when it is there already."""
        probs = ctx.saved_tensors[0]
        weighted = probs * gradients[0]
        return weighted - probs * weighted[..., :_WARP].sum(-1, keepdim=True)


def first_sum_alone(patch: Patch) -> None:
    apply: Any = _Softmax.apply
    patch.function(
        code.probabilities,
        lambda _plain, scores, mask, dtype: apply(scores if mask is None else scores + mask).to(dtype),
    )


def reduced_again(patch: Patch) -> None:
    """The way into the sharded layers sums the ranks' gradients, and so does the end of the step for norms."""
    for layer in patch.layers("decoder"):
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            norm.weight.grad.mul_(_RANKS)


def passed_by(plain: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    """The kernel turns the numbers where they lie, and autograd knows nothing of it."""
    return plain(x.detach(), cos, sin) + (x - x.detach())


def of_parts(probs: torch.Tensor) -> torch.Tensor:
    """Probabilities of each half of the keys by itself."""
    halves = torch.split(probs, (probs.shape[-1] + 1) // 2, dim=-1)
    return torch.cat([half / half.sum(-1, keepdim=True).clamp(min=1e-30) for half in halves], dim=-1)


class _Joined(torch.autograd.Function):
    """Softmax of the whole, whose way back is that of two halves of the keys by themselves."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        probs = scores.softmax(-1)
        ctx.save_for_backward(probs)
        return probs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        probs = of_parts(ctx.saved_tensors[0])
        size = (probs.shape[-1] + 1) // 2
        halves = zip(torch.split(probs, size, dim=-1), torch.split(gradients[0], size, dim=-1), strict=True)
        return torch.cat([p * (g - (p * g).sum(-1, keepdim=True)) for p, g in halves], dim=-1)


class _Context(torch.autograd.Function):
    """`probs · values`, whose values get a gradient by their half's probabilities."""

    @staticmethod
    def forward(ctx: Any, probs: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(probs, values)
        return probs @ values

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        probs, values = ctx.saved_tensors
        return gradients[0] @ values.transpose(-1, -2), of_parts(probs).transpose(-1, -2) @ gradients[0]


def own_sums(patch: Patch) -> None:
    softmax: Any = _Joined.apply
    context: Any = _Context.apply

    def values(_plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
        return context(probs, code.repeat_kv(v, groups)).transpose(1, 2).contiguous()

    patch.function(
        code.probabilities,
        lambda _plain, scores, mask, dtype: softmax(scores if mask is None else scores + mask).to(dtype),
    )
    patch.function(code.weighted_values, values)


def _of(*names: str) -> str:
    return " ".join(f"gradient.{attention}.{name}" for attention in ("merged_attn", "self_attn") for name in names)


_STREAM = (
    "gradient.output gradient.attn_residual gradient.input_layernorm gradient.input_layernorm.weight "
    "gradient.decoder.embed_tokens gradient.encoder.embed_tokens gradient.encoder.norm gradient.encoder.norm.weight "
    "gradient.shared.weight"
)
_MEMORY = " ".join(f"gradient.merged_attn.encoder_{name}" for name in ("k_rope", "k_norm", "k_proj", "v_proj"))
_QK = _of(*(f"{part}_{name}" for part in "qk" for name in ("rope", "norm", "proj", "norm.weight", "proj.weight")))
_SCORES = _of("scores")
_TOO = f"{_STREAM} {_MEMORY} {_QK} {_of('q_proj.bias', 'k_proj.bias', 'v_proj.weight', 'v_proj.bias')}"
"""What gradients that are not recorded are seen at."""

ROWS = (
    row("E084", "a race sets a part of the softmax's row sum to 0 on the way back", "karpathy/llm.c#847", "race",
        "training/causal training/tied", first_sum_alone, _SCORES, also=_TOO),
    row("E085", "gradients of norms are summed over the ranks twice", "inclusionAI/AReno#496", "tensor parallel",
        "training/tied training/causal", after_backward(reduced_again),
        "gradient.input_layernorm.weight gradient.post_attention_layernorm.weight"),
    row("E086", "the rotation in place has a way back that does not turn: gradients pass as they are",
        "naver/croco#49", "backward", "training/causal training/untied",
        lambda patch: patch.function(rope.apply_rotary, passed_by),
        f"{_of('q_norm', 'k_norm')} gradient.merged_attn.encoder_k_norm", also=_TOO),
    row("E087", "attention joined from two parts goes back by each part's own sum of exponentials",
        "SHI-Labs/NATTEN#299", "backward", "training/tied training/causal", own_sums,
        f"{_SCORES} {_of('v_proj')} gradient.merged_attn.encoder_v_proj", also=_TOO),
)  # fmt: skip
