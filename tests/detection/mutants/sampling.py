"""Seeded bugs of choosing tokens: filters, ends of rows, beams and the pasts that they go on from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import EncoderDecoderCache, LogitsProcessorList
from transformers.generation import logits_process as filters

from detection.mutants.mutant import Mutant, Seed, words
from detection.mutants.patch import Patch
from qwen3_parity.recording.ours.generation import running_scores

PROBS = words("next_token_probs")
IDS = words("generated_ids")
SAMPLE = ("generation/sample",)
GREEDY = ("generation/greedy", "generation/merged")
BEAMS = ("generation/beams",)


def ordered(*last: type) -> Seed:
    """These processors come last, in this order."""

    def around(plain: Callable[..., Any], **given: Any) -> LogitsProcessorList:
        made = list(plain(**given))
        moved = [one for kind in last for one in made if isinstance(one, kind)]
        return LogitsProcessorList([*(one for one in made if one not in moved), *moved])

    return lambda patch: patch.wrap(patch.model, "_get_logits_processor", around)


def without(kind: type) -> Seed:
    def around(plain: Callable[..., Any], **given: Any) -> LogitsProcessorList:
        return LogitsProcessorList([one for one in plain(**given) if not isinstance(one, kind)])

    return lambda patch: patch.wrap(patch.model, "_get_logits_processor", around)


def generated(**settings: Any) -> Seed:
    """`generate()` with other settings; a function of the right value where one is callable."""

    def around(plain: Callable[..., Any], **given: Any) -> Any:
        other = {name: value(given[name]) if callable(value) else value for name, value in settings.items()}
        return plain(**given | other)

    return lambda patch: patch.wrap(patch.model, "generate", around)


def tails(patch: Patch) -> None:
    """Rows that have ended repeat their last token."""

    def around(plain: Callable[..., Any], **given: Any) -> Any:
        output = plain(**given)
        ids = output.sequences
        for row in ids:
            for slot in range(given["decoder_input_ids"].shape[1] + 1, len(row)):
                if row[slot - 1] in given["eos_token_id"]:
                    row[slot] = row[slot - 1]
        return output

    patch.wrap(patch.model, "generate", around)


def reordered(own: Callable[[torch.Tensor], Any] = lambda rows: rows, theirs: Any = lambda rows: rows) -> Seed:
    """The two halves of the cache are moved by other rows; None: not at all."""

    def around(_plain: Any, self: Any, beam_idx: torch.Tensor) -> None:
        for half, rows in ((self.self_attention_cache, own), (self.cross_attention_cache, theirs)):
            at = rows(beam_idx)
            if at is not None:
                half.reorder_cache(at)

    return lambda patch: patch.wrap(EncoderDecoderCache, "reorder_cache", _method(around))


def _method(around: Callable[..., Any]) -> Callable[..., Any]:
    return lambda plain, *args: around(plain, *args)


def scored(change: Callable[..., torch.Tensor]) -> Seed:
    """`change(before, logits, ids, beam_idx)` for the scores of beams that enter a step."""
    return lambda patch: patch.function(running_scores, lambda _plain, *given: change(*given))


def _plus(before: Any, costs: torch.Tensor, rows: torch.Tensor | slice) -> torch.Tensor:
    return costs if before is None else before[rows] + costs


CACHES = words("merged_attn.cache_keys merged_attn.cache_values")
MEMORY = words("merged_attn.cache_encoder_keys merged_attn.cache_encoder_values")
SCORES = words("beam_scores")

MUTANTS = (
    Mutant("SMP-06", "the first of several ids ends a row", generated(eos_token_id=lambda ids: ids[:1]), IDS,
           words("eos.one_of_several"), GREEDY),
    Mutant("SMP-06/last", "the last of several ids ends a row", generated(eos_token_id=lambda ids: ids[-1:]), IDS,
           words("eos.one_of_several"), GREEDY),
    Mutant("SMP-06/none", "nothing ends a row", generated(eos_token_id=None), IDS, words("eos.ignored"), GREEDY),
    Mutant("SMP-08", "temperature behind the filters", ordered(filters.TemperatureLogitsWarper), PROBS,
           words("sampling.order"), SAMPLE),
    Mutant("SMP-08/none", "no temperature", without(filters.TemperatureLogitsWarper), PROBS,
           words("sampling.no_temperature"), SAMPLE),
    Mutant("SMP-10", "rows that have ended repeat their last token", tails, IDS,
           words("eos.ignored eos.not_padded"), GREEDY),
    Mutant("own/filters-top-p-last", "top-p behind min-p", ordered(filters.TopPLogitsWarper), PROBS,
           words("sampling.order"), SAMPLE),
    Mutant("own/filters-penalty-last", "the penalty last", ordered(filters.RepetitionPenaltyLogitsProcessor), PROBS,
           words("sampling.order"), SAMPLE),
    Mutant("own/min-p-none", "no min-p", without(filters.MinPLogitsWarper), PROBS, words("sampling.no_min_p"), SAMPLE),
    Mutant("own/beams-not-moved", "pasts stay behind their beams", reordered(own=lambda rows: None), CACHES,
           words("beams.not_reordered"), BEAMS),
    Mutant("own/beams-moved-inversely", "pasts move the other way round",
           reordered(own=lambda rows: rows.argsort(stable=True)), CACHES, words("beams.reordered_inversely"), BEAMS),
    Mutant("own/beams-first-source", "rows counted from the first source", reordered(own=lambda rows: rows % 3), CACHES,
           words("beams.other_source"), BEAMS),
    Mutant("MRG-14", "the encoder's half moves to another source's rows",
           reordered(theirs=lambda rows: rows.roll(3)), MEMORY, words("beams.other_source"), BEAMS),
    Mutant("MRG-14/first", "the encoder's half of the first source for all", reordered(theirs=lambda rows: rows % 3),
           MEMORY, words("beams.other_source"), BEAMS),
    Mutant("own/beam-scores-not-moved", "scores stay behind their beams", scored(
        lambda before, logits, ids, rows: _plus(before, logits.float().log_softmax(-1)[rows, ids], slice(None))),
           SCORES, words("beam_scores.not_moved"), BEAMS),
    Mutant("own/length-penalty-none", "no length penalty", generated(length_penalty=0.0),
           words("sequences_scores generated_ids"), words("length_penalty.other"), BEAMS),
    Mutant("own/length-penalty-one", "sums are divided by the length", generated(length_penalty=1.0),
           words("sequences_scores generated_ids"), words("length_penalty.other"), BEAMS),
)  # fmt: skip
