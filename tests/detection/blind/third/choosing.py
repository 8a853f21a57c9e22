"""Samplers of others: thresholds taken elsewhere, filters in another order, ties, and what a history holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import LogitsProcessorList
from transformers.generation import logits_process as filters

from detection.blind.first.sampling import replaced
from detection.blind.row import row
from detection.mutants.mutant import Seed

Steps = list[Any]


def steps(change: Callable[[Steps], Steps]) -> Seed:
    """The processors are `change(processors)`."""

    def around(plain: Callable[..., Any], **arguments: Any) -> LogitsProcessorList:
        return LogitsProcessorList(change(list(plain(**arguments))))

    return lambda patch: patch.wrap(patch.model, "_get_logits_processor", around)


def by_token_zero(step: Any, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """The threshold is a share of token 0's logit; outside of 0 and 1 it counts for nothing."""
    threshold = scores[:, :1] * step.min_p
    applied = (threshold > 0) & (threshold < 1)
    return scores.masked_fill(applied & (scores < threshold), -torch.inf)


def temperature_last(processors: Steps) -> Steps:
    return sorted(processors, key=lambda step: isinstance(step, filters.TemperatureLogitsWarper))


def sum_of_logarithms(step: Any, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """What is added up until it reaches top-p is the logarithms of probabilities, which are negative."""
    logarithms, order = scores.log_softmax(-1).sort(-1, descending=True)
    stays = logarithms.cumsum(-1) < step.top_p
    stays[:, 0] = True
    return scores.masked_fill(~torch.zeros_like(stays).scatter(-1, order, stays), -torch.inf)


def last_of_equal(_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    largest = scores == scores.amax(-1, keepdim=True)
    last = scores.shape[-1] - 1 - largest.flip(-1).long().argmax(-1, keepdim=True)
    return scores.masked_fill(largest & (torch.arange(scores.shape[-1]) != last), -torch.inf)


def last_token_alone(step: Any, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Each token that is accepted pushes out the one before."""
    last = scores.gather(1, ids[:, -1:])
    penalised = torch.where(last < 0, last * step.penalty, last / step.penalty)
    return scores.scatter(1, ids[:, -1:], penalised)


def by_own_width(_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """A rank's best token is counted from the rank's number times its own shard's width."""
    first = (scores.shape[-1] + 1) // 2
    best = scores.argmax(-1, keepdim=True)
    counted = torch.where(best >= first, best - first + scores.shape[-1] - first, best)
    return torch.full_like(scores, -torch.inf).scatter(-1, counted, 0.0)


_SAMPLE, _PROBS, _IDS = "generation/sample", "next_token_probs", "generated_ids"

ROWS = (
    row("E070", "min-p is a share of token 0's logit", "state-spaces/mamba#927", "filters", _SAMPLE,
        replaced(filters.MinPLogitsWarper, by_token_zero), _PROBS),
    row("E071", "the temperature is applied behind the filters", "fishaudio/fish-speech#1150", "filters", _SAMPLE,
        steps(temperature_last), _PROBS),
    row("E072", "top-p adds up logarithms of probabilities, which never reach it", "skyzh/tiny-llm#32", "filters",
        _SAMPLE, replaced(filters.TopPLogitsWarper, sum_of_logarithms), _PROBS),
    row("E073", "of equal logits the last token is chosen", "ohdearquant/lattice#280", "ties",
        "generation/equal_logits", steps(lambda processors: [*processors, last_of_equal]), _IDS),
    row("E074", "the history that is penalised holds the last token alone", "ikawrakow/ik_llama.cpp#2410", "penalty",
        "generation/sample generation/penalty_padded",
        replaced(filters.RepetitionPenaltyLogitsProcessor, last_token_alone), _PROBS),
    row("E075", "shards of the vocabulary are not equally wide: the second one's tokens are counted one too low",
        "NVIDIA/TensorRT-LLM#18836", "tensor parallel", "generation/greedy generation/merged",
        steps(lambda processors: [*processors, by_own_width]), _IDS),
)  # fmt: skip
