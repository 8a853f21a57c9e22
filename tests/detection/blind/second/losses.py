"""Losses of others: which label a logit is held against, what the sum is divided by, what a shard leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_encdec
from qwen3_parity.recording.ours import training

_IGNORED, _PAD, _STEPS, _RANKS = -100, 3, 4, 2

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""`loss(logits, labels)`, of `[batch, length, vocab]` and `[batch, length]`."""


def mean(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """As it is written."""
    flat = logits.float().flatten(0, 1)
    return torch.nn.functional.cross_entropy(flat, labels.flatten().long(), ignore_index=_IGNORED)


def replaced(loss: Loss) -> Seed:
    def around(logits: torch.Tensor, labels: torch.Tensor, _items: Any = None) -> torch.Tensor:
        return loss(logits, labels)

    return lambda patch: patch.setattr(modeling_qwen3_encdec, "_loss", around)


def shifted_again(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return mean(logits, torch.nn.functional.pad(labels, (0, 1), value=_IGNORED)[:, 1:])


def by_every_position(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return mean(logits, labels) * (labels != _IGNORED).sum() / labels.numel()


def padding_learned(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return mean(logits, labels.masked_fill(labels == _IGNORED, _PAD))


class _Sharded(torch.autograd.Function):
    """Two ranks that both hold all logits add up their sums of exponentials."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        total = logits.logsumexp(-1) + torch.tensor(float(_RANKS)).log()
        ctx.save_for_backward((logits - total[:, None]).exp(), labels)
        return total - logits.gather(1, labels[:, None])[:, 0]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        probs, labels = ctx.saved_tensors
        hot = torch.nn.functional.one_hot(labels, probs.shape[-1])
        return gradients[0][:, None] * (probs - hot), None


def counted_by_each_rank(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    apply: Any = _Sharded.apply
    real = labels != _IGNORED
    costs: torch.Tensor = apply(logits.float()[real], labels[real].long())
    return costs.mean()


def steps_not_divided(patch: Patch) -> None:
    patch.function(training.backward, lambda plain, value: plain(value * _STEPS))


_LOSS = "loss gradient.logits"

ROWS = (
    row("D147", "labels that are in place are shifted once more by the loss", "huggingface/transformers#46901",
        "labels", "training/from_labels training/causal", replaced(shifted_again), _LOSS),
    row("D148", "ignored labels count in the loss's denominator", "tracel-ai/burn#5568", "loss",
        "training/causal training/tied", replaced(by_every_position), _LOSS),
    row("D149", "what is to be ignored has the padding's id for a label and is learned", "FlagAI-Open/FlagAI#522",
        "labels", "training/untied training/causal", replaced(padding_learned), _LOSS),
    row("D150", "the loss is not divided by the number of accumulated steps before the way back",
        "karpathy/nanoGPT#168", "accumulation", "training/tied training/causal", steps_not_divided,
        "gradient.logits"),
    row("D151", "two ranks that hold all logits each count the sum of exponentials: log 2 is added to the loss",
        "NVIDIA/Megatron-LM#7452", "tensor parallel", "training/causal training/untied",
        replaced(counted_by_each_rank), _LOSS),
)  # fmt: skip
