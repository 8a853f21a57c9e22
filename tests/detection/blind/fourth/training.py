"""Training of others: losses without a way back or a denominator, and ways back that hide, cut off or forget."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from detection.blind.first.training import backward, weight_gradient
from detection.blind.row import row
from detection.blind.second.losses import mean, replaced
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec.modeling_qwen3_encoder import Qwen3EncoderAttention
from qwen3_parity.recording.ours import training

_STEPS, _IGNORED = 4, -100
_BLOCK = 4
"""Channels of a block of a sum."""


def without_way_back(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return mean(logits, labels).detach() + 0 * logits.sum()


def divided_again(patch: Patch) -> None:
    """The loss is divided by the tokens of all accumulated steps, and its gradient by the number of steps."""
    patch.function(training.backward, lambda plain, value: plain(value / _STEPS))


def summed(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    flat = logits.float().flatten(0, 1)
    return nn.functional.cross_entropy(flat, labels.flatten().long(), ignore_index=_IGNORED, reduction="sum")


def causal(probs: torch.Tensor) -> torch.Tensor:
    return probs.tril()


class _Softmax(torch.autograd.Function):
    """A softmax over all keys, whose way back recomputes the probabilities of earlier keys alone."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        probs = scores.softmax(-1)
        ctx.save_for_backward(probs)
        return probs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        probs = ctx.saved_tensors[0]
        delta = (probs * gradients[0]).sum(-1, keepdim=True)
        return causal(probs) * (gradients[0] - delta)


class _Context(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, probs: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(probs, values)
        return probs @ values

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        probs, values = ctx.saved_tensors
        return gradients[0] @ values.transpose(-1, -2), causal(probs).transpose(-1, -2) @ gradients[0]


def causal_way_back(patch: Patch) -> None:
    """The encoder's attention goes back as if it were causal."""
    inside: list[bool] = [False]
    softmax: Any = _Softmax.apply
    context: Any = _Context.apply

    def forward(plain: Any, *args: Any, **kwargs: Any) -> Any:
        inside[0] = True
        result = plain(*args, **kwargs)
        inside[0] = False
        return result

    def probabilities(plain: Any, scores: torch.Tensor, mask: Any, dtype: torch.dtype) -> Any:
        return softmax(scores + mask).to(dtype) if inside[0] else plain(scores, mask, dtype)

    def values(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
        if not inside[0]:
            return plain(probs, v, groups)
        return context(probs, code.repeat_kv(v, groups)).transpose(1, 2).contiguous()

    patch.wrap(Qwen3EncoderAttention, "forward", forward)
    patch.function(code.probabilities, probabilities)
    patch.function(code.weighted_values, values)


def last_block_of_sum(g: Any, x: Any, weight: Any, r: Any) -> Any:
    """Each block of channels takes the sum's place anew: the last one stays."""
    total = (g * weight * x)[..., -_BLOCK:].sum(-1, keepdim=True)
    return g * weight * r - r**3 * x * total / x.shape[-1], weight_gradient(g, x, r)


def padding_learns(patch: Patch) -> None:
    """The way back of the embedding has no padding id."""
    for table in (patch.model.encoder.embed_tokens, patch.model.decoder.embed_tokens):
        patch.setattr(table, "forward", lambda ids, table=table: nn.functional.embedding(ids, table.weight))


def _of(*names: str) -> str:
    return " ".join(f"gradient.self_attn.{name}" for name in names)


_LOSS = "loss gradient.logits"
_STREAM = "gradient.output gradient.attn_residual gradient.decoder.embed_tokens"
_STREAM_TOO = "gradient.shared.weight gradient.encoder.norm"
_ENCODER_TOO = (
    "gradient.output gradient.attn_residual gradient.input_layernorm gradient.input_layernorm.weight "
    "gradient.encoder.embed_tokens gradient.shared.weight "
    + _of(*(f"{part}_{name}" for part in "qk" for name in ("rope", "norm", "proj", "norm.weight", "proj.weight")))
    + f" {_of('q_proj.bias', 'k_proj.bias', 'v_proj.weight', 'v_proj.bias')}"
)
"""What gradients that are not recorded are seen at."""

ROWS = (
    row("F078", "the cross-entropy has no way back: all gradients are 0", "microsoft/DirectML#740", "loss",
        "training/tied training/causal", replaced(without_way_back), "gradient.logits"),
    row("F079", "a loss that is divided by the tokens of all steps is divided by the number of steps, too",
        "huggingface/transformers#35210", "accumulation", "training/causal training/untied", divided_again,
        "gradient.logits"),
    row("F080", "the loss is a sum over the labels, which nothing divides", "huggingface/transformers#7546", "loss",
        "training/untied training/tied", replaced(summed), _LOSS),
    row("F081", "the way back through bidirectional attention is causal", "triton-lang/triton#4541", "backward",
        "training/tied training/untied", causal_way_back, _of("scores", "v_proj"), also=_ENCODER_TOO),
    row("F082", "of the sum in a norm's way back the last block of channels is left", "tenstorrent/tt-metal#53204",
        "backward", "training/causal training/tied", backward(last_block_of_sum), _STREAM, also=_STREAM_TOO),
    row("F083", "the padding's row of the embedding gets a gradient", "pytorch/pytorch#28716", "backward",
        "training/tied training/untied", padding_learns, "gradient.shared.weight"),
)  # fmt: skip
