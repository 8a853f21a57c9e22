"""Seeded bugs of choosing tokens: filters, ends of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import LogitsProcessorList
from transformers.generation import logits_process as filters

from detection.mutants.mutant import Mutant, Seed, words
from detection.mutants.patch import Patch

PROBS = words("next_token_probs")
IDS = words("generated_ids")
SAMPLE = ("generation/sample",)
GREEDY = ("generation/greedy", "generation/merged")


def ordered(*last: type) -> Seed:
    """These processors come last, in this order."""

    def around(plain: Callable[..., Any], **arguments: Any) -> LogitsProcessorList:
        processors = list(plain(**arguments))
        moved = [processor for kind in last for processor in processors if isinstance(processor, kind)]
        return LogitsProcessorList([*(processor for processor in processors if processor not in moved), *moved])

    return lambda patch: patch.wrap(patch.model, "_get_logits_processor", around)


def without(kind: type) -> Seed:
    def around(plain: Callable[..., Any], **arguments: Any) -> LogitsProcessorList:
        return LogitsProcessorList([processor for processor in plain(**arguments) if not isinstance(processor, kind)])

    return lambda patch: patch.wrap(patch.model, "_get_logits_processor", around)


def generated(**settings: Any) -> Seed:
    """`generate()` with other settings; a function of the right value where one is callable."""

    def around(plain: Callable[..., Any], **arguments: Any) -> Any:
        changed = {name: value(arguments[name]) if callable(value) else value for name, value in settings.items()}
        return plain(**arguments | changed)

    return lambda patch: patch.wrap(patch.model, "generate", around)


def tails(patch: Patch) -> None:
    """Rows that have ended repeat their last token."""

    def around(plain: Callable[..., Any], **arguments: Any) -> Any:
        ids = plain(**arguments)
        for row in ids:
            for slot in range(arguments["decoder_input_ids"].shape[1] + 1, len(row)):
                if row[slot - 1] in arguments["eos_token_id"]:
                    row[slot] = row[slot - 1]
        return ids

    patch.wrap(patch.model, "generate", around)


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
)  # fmt: skip
