"""Samplers of others: filters that leave too much or too little, and penalties that count wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import LogitsProcessorList
from transformers.generation import logits_process as filters

from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch

Filter = Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]
"""`filter(processor, ids, scores)`: what stands for a processor of the reference's kind."""


def replaced(kind: type, change: Filter) -> Seed:
    def around(plain: Callable[..., Any], **arguments: Any) -> LogitsProcessorList:
        return LogitsProcessorList(
            (lambda ids, scores, step=step: change(step, ids, scores)) if isinstance(step, kind) else step
            for step in plain(**arguments)
        )

    return lambda patch: patch.wrap(patch.model, "_get_logits_processor", around)


def nucleus(scores: torch.Tensor, shown: Callable[[torch.Tensor], torch.Tensor], descending: bool) -> torch.Tensor:
    """Scores of which those stay that `shown(sorted probabilities)` says; the largest always does."""
    probabilities, order = scores.softmax(-1).sort(-1, descending=descending)
    stays = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order, shown(probabilities))
    stays.scatter_(-1, scores.argmax(-1, keepdim=True), True)
    return scores.masked_fill(~stays, -torch.inf)


def before_top_k(patch: Patch) -> None:
    """top-p sums up probabilities that top-k has not normalised."""
    whole: list[torch.Tensor] = []

    def top_k(step: Any, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        whole[:] = [scores.logsumexp(-1, keepdim=True)]
        return torch.Tensor(step(ids, scores))

    def top_p(step: Any, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        share = (scores.logsumexp(-1, keepdim=True) - whole[0]).exp()
        return nucleus(scores, lambda p: (p * share).cumsum(-1) > 1 - step.top_p, descending=False)

    replaced(filters.TopKLogitsWarper, top_k)(patch)
    replaced(filters.TopPLogitsWarper, top_p)(patch)


def without_crossing(step: Any, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return nucleus(scores, lambda p: p.cumsum(-1) <= step.top_p, descending=True)


def ascending(step: Any, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return nucleus(scores, lambda p: p.cumsum(-1) <= step.top_p, descending=False)


def one_more(step: Any, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    least = scores.topk(step.top_k + 1).values[..., -1:]
    return scores.masked_fill(scores < least, -torch.inf)


def negative_divided(step: Any, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return scores.scatter(1, ids, scores.gather(1, ids) / step.penalty)


def each_occurrence(step: Any, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    counts = torch.zeros_like(scores).scatter_add(1, ids, torch.ones_like(ids, dtype=scores.dtype))
    factor = step.penalty**counts
    return torch.where(scores < 0, scores * factor, scores / factor)


def padding_counts(step: Any, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    past = scores.gather(1, ids)
    return scores.scatter(1, ids, torch.where(past < 0, past * step.penalty, past / step.penalty))


_CASE, _PROBS = "generation/sample", "next_token_probs"

ROWS = (
    row("B091", "top-p sums up what top-k left without normalising it", "ml-explore/mlx-lm#388", "sampling", _CASE,
        before_top_k, _PROBS),
    row("B092", "top-k leaves one more", "kingoflolz/mesh-transformer-jax#164", "sampling", _CASE,
        replaced(filters.TopKLogitsWarper, one_more), _PROBS),
    row("B093", "the temperature divides twice", "RL-Align/RL-Kernel#81", "sampling", _CASE,
        replaced(filters.TemperatureLogitsWarper, lambda step, ids, scores: step(ids, step(ids, scores))), _PROBS),
    row("B094", "the token that crosses top-p is left out", "Biohub/esm#360", "sampling", _CASE,
        replaced(filters.TopPLogitsWarper, without_crossing), _PROBS),
    row("B095", "top-p adds up from the smallest", "dmlc/gluon-nlp#1481", "sampling", _CASE,
        replaced(filters.TopPLogitsWarper, ascending), _PROBS),
    row("B096", "the penalty divides negative logits, too", "NVIDIA-NeMo/Speech#8194", "sampling",
        "generation/penalty_padded generation/sample",
        replaced(filters.RepetitionPenaltyLogitsProcessor, negative_divided), _PROBS),
    row("B097", "the penalty counts each time that a token occurs", "huggingface/transformers.js#1062", "sampling",
        "generation/sample generation/penalty_padded",
        replaced(filters.RepetitionPenaltyLogitsProcessor, each_occurrence), _PROBS),
    row("B098", "the penalty counts padding", "huggingface/text-generation-inference#1765", "sampling",
        "generation/penalty_padded", replaced(filters.RepetitionPenaltyLogitsProcessor, padding_counts), _PROBS),
)  # fmt: skip
