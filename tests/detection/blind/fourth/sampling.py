"""Samplers and loops of others: what a filter leaves, whose tokens a penalty counts, and where a row ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers.generation import logits_process as filters

from detection.blind.first.sampling import replaced
from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch

_BLOCK = 2
"""Tokens that are accepted at once."""
_LAST = 4
"""Tokens of the history that are to be penalised."""


def at_most_two(step: Any, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """The last token of the nucleus is looked up in the first column of a running sum, which is 0 or 1."""
    probabilities, order = scores.softmax(-1).sort(-1, descending=True)
    inside = probabilities.cumsum(-1) < step.top_p
    last = inside.long().cumsum(-1)[:, :1]
    inside = inside.scatter(-1, last, True)
    inside[:, int(last.max()) + 1 :] = False
    return scores.masked_fill(~torch.zeros_like(inside).scatter(-1, order, inside), -torch.inf)


def tiny_for_hidden(step: Any, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """-1e10 was meant."""
    least = scores.topk(step.top_k).values[..., -1:]
    return scores.masked_fill(scores < least, 1e-10)


def prompt_unseen_at_first(patch: Patch) -> None:
    """The first token is chosen without the prompt's tokens in the penalty's history."""
    prompt: list[int] = []

    def penalised(step: Any, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        prompt.extend([] if prompt else [ids.shape[1]])
        result: torch.Tensor = scores if ids.shape[1] == prompt[0] else step(ids, scores)
        return result

    replaced(filters.RepetitionPenaltyLogitsProcessor, penalised)(patch)


def first_of_history(step: Any, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """The whole history is handed over, and of it as many are read as the last ones are to be."""
    result = scores.clone()
    padding = step.prompt_ignore_length
    starts = padding.tolist() if isinstance(padding, torch.Tensor) else [padding or 0] * len(ids)
    for index, start in enumerate(starts):
        tokens = ids[index, start : start + _LAST]
        theirs = scores[index, tokens]
        result[index, tokens] = torch.where(theirs < 0, theirs * step.penalty, theirs / step.penalty)
    return result


def all_but_newest(step: Any, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = step(ids[:, :-1], scores)
    return result


def generated(change: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor], **options: Any) -> Seed:
    """The tokens behind the prompt are `change(ids, ends, pad)` of what `generate` gives with the options."""

    def around(plain: Callable[..., Any], **arguments: Any) -> Any:
        ends = torch.as_tensor(arguments["eos_token_id"]).flatten()
        prompt = arguments["decoder_input_ids"].shape[1]
        ids = plain(**(arguments | options))
        return torch.cat((ids[:, :prompt], change(ids[:, prompt:], ends, arguments["pad_token_id"])), dim=1)

    return lambda patch: patch.wrap(patch.model, "generate", around)


def ends_of_blocks(ids: torch.Tensor, ends: torch.Tensor, pad: int) -> torch.Tensor:
    """Whether a row has ended is asked of the last token of each block that was accepted."""
    result = ids.clone()
    for tokens in result:
        asked = torch.isin(tokens[_BLOCK - 1 :: _BLOCK], ends).nonzero().flatten()
        if len(asked):
            tokens[(int(asked[0]) + 1) * _BLOCK :] = pad
    return result


def padding_for_end(ids: torch.Tensor, ends: torch.Tensor, pad: int) -> torch.Tensor:
    """A row counts as ended before the token that ends it is written."""
    return ids.masked_fill(torch.isin(ids, ends), pad)


_SAMPLE, _PROBS, _IDS = "generation/sample", "next_token_probs", "generated_ids"
_PENALISED = "generation/penalty_padded generation/sample"
_PENALTY = filters.RepetitionPenaltyLogitsProcessor

ROWS = (
    row("F066", "top-p leaves two tokens at most: its last token is looked up in the wrong column",
        "facebookresearch/fairseq#882", "filters", _SAMPLE, replaced(filters.TopPLogitsWarper, at_most_two), _PROBS),
    row("F067", "what top-k takes out gets the logit 1e-10 instead of -1e10", "karpathy/minGPT#10", "filters",
        _SAMPLE, replaced(filters.TopKLogitsWarper, tiny_for_hidden), _PROBS),
    row("F068", "the first choice is not penalised: the penalty has not seen the prompt",
        "vllm-project/vllm-metal#69", "penalty", _PENALISED, prompt_unseen_at_first, _PROBS),
    row("F069", "the penalty counts the first tokens of the history instead of the last ones",
        "abetlen/llama-cpp-python#1295", "penalty", _PENALISED, replaced(_PENALTY, first_of_history), _PROBS),
    row("F070", "an end within a block of accepted tokens is passed over", "huggingface/transformers#47912", "stop",
        "generation/greedy generation/merged", generated(ends_of_blocks, eos_token_id=None), _IDS),
    row("F071", "the penalty's history lacks the newest token", "abetlen/llama-cpp-python#1179", "penalty",
        _PENALISED, replaced(_PENALTY, all_but_newest), _PROBS),
    row("F072", "the token that ends a row is replaced by padding", "thu-nics/C2C#19", "stop",
        "generation/greedy generation/merged", generated(padding_for_end), _IDS),
)  # fmt: skip
