"""Heads, filters and loops of others: what becomes of logits, of a penalty, and of rows that have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import LogitsProcessorList
from transformers.generation import logits_process as filters

from detection.blind.first.sampling import replaced
from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch

_CAP = 30.0


def without(*kinds: type) -> Seed:
    """The processors of these kinds do nothing."""

    def around(plain: Callable[..., Any], **arguments: Any) -> LogitsProcessorList:
        return LogitsProcessorList([step for step in plain(**arguments) if not isinstance(step, kinds)])

    return lambda patch: patch.wrap(patch.model, "_get_logits_processor", around)


def share_of_logit(step: Any, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Logits below a share of the largest become 0, those that are hidden already, too."""
    return torch.where(scores < step.min_p * scores.amax(-1, keepdim=True), 0.0, scores)


def all_at_once(patch: Patch) -> None:
    """Rows go on until each of them gives an end in the same step."""

    def around(plain: Callable[..., Any], **arguments: Any) -> Any:
        ends = torch.as_tensor(arguments["eos_token_id"])
        ids = plain(**arguments | {"eos_token_id": None})
        prompt = arguments["decoder_input_ids"].shape[1]
        ended = torch.isin(ids[:, prompt:], ends).all(0).nonzero().flatten()
        return ids[:, : prompt + int(ended[0]) + 1] if len(ended) else ids

    patch.wrap(patch.model, "generate", around)


def cap_misspelt(patch: Patch) -> None:
    patch.result(patch.model.lm_head, "forward", lambda y: y * torch.tanh(y / _CAP))


def head_before_norm(patch: Patch) -> None:
    patch.setattr(patch.model.decoder.norm, "forward", lambda x: x.clone())


_PENALTY = filters.RepetitionPenaltyLogitsProcessor
_CASES, _PROBS = "generation/sample generation/penalty_padded", "next_token_probs"

ROWS = (
    row("D140", "the repetition penalty is applied twice, by the runner and by the sampler",
        "sgl-project/sglang-omni#2005", "penalty", _CASES,
        replaced(_PENALTY, lambda step, ids, scores: step(ids, step(ids, scores))), _PROBS),
    row("D141", "the repetition penalty is ignored", "waybarrios/vllm-mlx#258", "penalty",
        "generation/penalty_padded generation/sample", without(_PENALTY), _PROBS),
    row("D142", "the batch's sampler knows neither top-k nor min-p", "Blaizzy/mlx-vlm#1647", "filters",
        "generation/sample", without(filters.TopKLogitsWarper, filters.MinPLogitsWarper), _PROBS),
    row("D143", "min-p compares logits instead of probabilities, and what it rejects gets the logit 0",
        "sgl-project/sglang-jax#1563", "filters", "generation/sample",
        replaced(filters.MinPLogitsWarper, share_of_logit), _PROBS),
    row("D144", "generation ends when all rows end in the same step; a row that has ended goes on",
        "Dao-AILab/flash-attention#2784", "stop", "generation/greedy generation/merged", all_at_once,
        "generated_ids"),
    row("D145", "logits are multiplied by the tanh that should cap them", "unslothai/unsloth-zoo#593", "logits",
        "decoder/window_even decoder/plain", cap_misspelt, "logits"),
    row("D146", "the head reads the last layer's output: the final norm is left out", "awslabs/keys_values#141",
        "logits", "encdec/bfloat16 encdec/window", head_before_norm, "decoder.norm"),
)  # fmt: skip
