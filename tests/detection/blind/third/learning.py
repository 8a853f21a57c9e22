"""Losses of others: of probabilities, of chunks, in few bits, and without the way back to other shards."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from detection.blind.row import row
from detection.blind.second.losses import mean, replaced

_CHUNK, _IGNORED = 4, -100


def of_probabilities(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return mean(logits.float().softmax(-1), labels)


def means_added(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Each chunk's mean, added up."""
    number = -(-labels.numel() // _CHUNK)
    chunks = zip(logits.flatten(0, 1).chunk(number), labels.flatten().chunk(number), strict=True)
    return torch.stack([mean(chunk[None], theirs[None]) for chunk, theirs in chunks]).sum()


def in_bfloat16(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    flat = logits.bfloat16().flatten(0, 1)
    return functional.cross_entropy(flat, labels.flatten().long(), ignore_index=_IGNORED).float()


class _Gathered(torch.autograd.Function):
    """Of two shards of the vocabulary the label's own alone gets a gradient."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits.softmax(-1), labels)
        return functional.cross_entropy(logits, labels, reduction="none")

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        probs, labels = ctx.saved_tensors
        vocab = probs.shape[-1]
        first = (vocab + 1) // 2
        mine = (torch.arange(vocab) >= first) == (labels >= first)[:, None]
        return gradients[0][:, None] * (probs - functional.one_hot(labels, vocab)) * mine, None


def of_one_shard(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    apply: Any = _Gathered.apply
    real = labels != _IGNORED
    costs: torch.Tensor = apply(logits.float()[real], labels[real].long())
    return costs.mean()


_LOSS = "loss gradient.logits"

ROWS = (
    row("E080", "the cross-entropy gets probabilities for logits", "SonyCSLParis/pesto-full#4", "loss",
        "training/tied training/causal", replaced(of_probabilities), _LOSS),
    row("E081", "the means of chunks are added up", "NVIDIA-NeMo/Automodel#3803", "loss",
        "training/causal training/untied", replaced(means_added), _LOSS),
    row("E082", "the cross-entropy is computed in bfloat16", "Modalities/modalities#464", "half precision",
        "training/untied training/from_labels", replaced(in_bfloat16), _LOSS),
    row("E083", "a label's gradient stays on the rank of its shard: the other shard's logits get none",
        "modelscope/ms-swift#9947", "tensor parallel", "training/from_labels training/tied", replaced(of_one_shard),
        "gradient.logits"),
)  # fmt: skip
