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
HIDDEN = -float("inf")

Scores = torch.Tensor
Rule = Callable[[Any, torch.Tensor, Scores], Scores]
"""`rule(processor, ids, scores)` in the place of a processor of Hugging Face's."""


def filtered(processor: Any, rule: Rule) -> Seed:
    """`rule` in the place of what a class of processors does."""
    return lambda patch: patch.setattr(processor, "__call__", rule)


def kept_by_mass(keep: Callable[[Any, torch.Tensor], torch.Tensor]) -> Seed:
    """Top-p by `keep(processor, probabilities, largest first)`; the largest always stays."""

    def rule(self: Any, _ids: torch.Tensor, scores: Scores) -> Scores:
        ordered, order = scores.sort(descending=True, stable=True)
        stays = keep(self, ordered.softmax(-1))
        stays[:, 0] = True
        return scores.masked_fill(~torch.zeros_like(stays).scatter(1, order, stays), HIDDEN)

    return filtered(filters.TopPLogitsWarper, rule)


def penalty(change: Callable[[Any, Scores, torch.Tensor], Scores]) -> Seed:
    """Repetition penalty by `change(processor, scores, how often each token was had)`."""

    def rule(self: Any, ids: torch.Tensor, scores: Scores) -> Scores:
        kept = ids >= 0
        if self.prompt_ignore_length is not None:
            kept = torch.arange(ids.shape[1])[None] >= torch.as_tensor(self.prompt_ignore_length)[:, None]
        counts = torch.zeros_like(scores).scatter_add_(1, ids, kept.to(scores.dtype))
        return change(self, scores, counts)

    return filtered(filters.RepetitionPenaltyLogitsProcessor, rule)


def divided(scores: Scores, strength: Any) -> Scores:
    return torch.where(scores < 0, scores * strength, scores / strength)


def of_part(part: Callable[[torch.Tensor, int], torch.Tensor]) -> Seed:
    """The penalty for `part(ids, prompt length)` of what a row has had."""

    def seed(patch: Patch) -> None:
        plain = filters.RepetitionPenaltyLogitsProcessor.__call__

        def rule(self: Any, ids: torch.Tensor, scores: Scores) -> Scores:
            lead, self.prompt_ignore_length = self.prompt_ignore_length, None
            try:
                rows = [part(row[int(skip) :], 6 - int(skip)) for row, skip in zip(ids, lead, strict=True)]
                return torch.cat([plain(self, r[None], s[None]) for r, s in zip(rows, scores, strict=True)])
            finally:
                self.prompt_ignore_length = lead

        patch.setattr(filters.RepetitionPenaltyLogitsProcessor, "__call__", rule)

    return seed


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


def cut_ties(self: Any, _ids: torch.Tensor, scores: Scores) -> Scores:
    order = scores.sort(descending=True, stable=True).indices[:, : self.top_k]
    return torch.full_like(scores, HIDDEN).scatter(1, order, scores.gather(1, order))


def one_more(self: Any, _ids: torch.Tensor, scores: Scores) -> Scores:
    return scores.masked_fill(scores < scores.topk(self.top_k + 1)[0][:, -1:], HIDDEN)


def of_one(self: Any, _ids: torch.Tensor, scores: Scores) -> Scores:
    gone = (scores.softmax(-1) < self.min_p) & (scores < scores.amax(-1, keepdim=True))
    return scores.masked_fill(gone, HIDDEN)


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
    Mutant("SMP-01", "the token that crosses p is left out", kept_by_mass(lambda s, p: p.cumsum(-1) <= s.top_p), PROBS,
           words("top_p.crossing_left_out"), SAMPLE),
    Mutant("SMP-02", "any top-p leaves the largest alone", kept_by_mass(lambda s, p: p.cumsum(-1) < 0), PROBS,
           words("top_p.argmax top_p.each"), SAMPLE),
    Mutant("SMP-02/exact", "a sum that is exactly p is not enough",
           kept_by_mass(lambda s, p: p.cumsum(-1) - p <= s.top_p), PROBS, words("top_p.one_too_many"),
           ("op/next_token_probs_top_p_exact",)),
    Mutant("SMP-04", "negative logits are divided", penalty(
        lambda s, x, n: torch.where(n > 0, x / s.penalty, x)), PROBS, words("repetition_penalty.negative_divided"),
           SAMPLE),
    Mutant("SMP-05", "a token that was had twice is penalised twice",
           penalty(lambda s, x, n: divided(x, s.penalty**n)), PROBS, words("repetition_penalty.repeated"), SAMPLE),
    Mutant("SMP-05/prompt", "the prompt is left out", of_part(lambda ids, prompt: ids[prompt:]), PROBS,
           words("repetition_penalty.prompt_left_out"), SAMPLE),
    Mutant("SMP-05/generated", "the prompt alone is counted", of_part(lambda ids, prompt: ids[:prompt]), PROBS,
           words("repetition_penalty.generated_left_out"), SAMPLE),
    Mutant("SMP-06", "the first of several ids ends a row", generated(eos_token_id=lambda ids: ids[:1]), IDS,
           words("eos.one_of_several"), GREEDY),
    Mutant("SMP-06/last", "the last of several ids ends a row", generated(eos_token_id=lambda ids: ids[-1:]), IDS,
           words("eos.one_of_several"), GREEDY),
    Mutant("SMP-06/none", "nothing ends a row", generated(eos_token_id=None), IDS, words("eos.ignored"), GREEDY),
    Mutant("SMP-08", "temperature behind the filters", ordered(filters.TemperatureLogitsWarper), PROBS,
           words("sampling.order"), SAMPLE),
    Mutant("SMP-08/multiplied", "logits times the temperature", filtered(
        filters.TemperatureLogitsWarper, lambda s, _, x: x * s.temperature), PROBS, words("temperature.multiplied"),
           SAMPLE),
    Mutant("SMP-08/none", "no temperature", without(filters.TemperatureLogitsWarper), PROBS,
           words("sampling.no_temperature"), SAMPLE),
    Mutant("SMP-10", "rows that have ended repeat their last token", tails, IDS,
           words("eos.ignored eos.not_padded"), GREEDY),
    Mutant("own/filters-top-p-last", "top-p behind min-p", ordered(filters.TopPLogitsWarper), PROBS,
           words("sampling.order"), SAMPLE),
    Mutant("own/filters-penalty-last", "the penalty last", ordered(filters.RepetitionPenaltyLogitsProcessor), PROBS,
           words("sampling.order"), SAMPLE),
    Mutant("own/top-k-ties", "of equals at the k-th place one stays",
           filtered(filters.TopKLogitsWarper, cut_ties), PROBS, words("top_k.ties_cut"),
           ("op/next_token_probs_top_k",)),
    Mutant("own/top-k-more", "k + 1 stay", filtered(filters.TopKLogitsWarper, one_more), PROBS,
           words("top_k.off_by_one"), SAMPLE),
    Mutant("own/min-p-of-one", "min-p relative to 1", filtered(filters.MinPLogitsWarper, of_one), PROBS,
           words("min_p.of_one"), SAMPLE),
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
    Mutant("own/beam-scores-logits", "sums of logits", scored(
        lambda before, logits, ids, rows: _plus(before, logits.float()[rows, ids], rows)), SCORES,
           words("beam_scores.logits"), BEAMS),
    Mutant("own/beam-scores-not-moved", "scores stay behind their beams", scored(
        lambda before, logits, ids, rows: _plus(before, logits.float().log_softmax(-1)[rows, ids], slice(None))),
           SCORES, words("beam_scores.not_moved"), BEAMS),
    Mutant("own/length-penalty-none", "no length penalty", generated(length_penalty=0.0),
           words("sequences_scores generated_ids"), words("length_penalty.other"), BEAMS),
    Mutant("own/length-penalty-one", "sums are divided by the length", generated(length_penalty=1.0),
           words("sequences_scores generated_ids"), words("length_penalty.other"), BEAMS),
)  # fmt: skip
