"""What the specification makes of a generation case: beams that move, and what tokens are chosen by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qwen3_golden import Array, pb
from qwen3_spec import Arithmetic, Cache
from qwen3_spec.ops import next_token_probs
from qwen3_spec.ops.beams import beam_scores, beam_search, choosing_steps, search_of
from qwen3_spec.ops.next_token_probs import sampling_of

_SCORES = ("beam_scores", "sequences_scores")


@dataclass
class Choices:
    """A run's choices, step by step: `enter` before the decoder's forward, `leave` behind it."""

    case: pb.Case
    inputs: Mapping[str, Array]
    steps: Sequence[int]
    tap: Callable[[int, str, Array], None]
    arithmetic: Arithmetic
    logits: list[Array] = field(default_factory=list)
    scores: Array | None = None

    def __post_init__(self) -> None:
        self.choosing = choosing_steps(self.steps, self.case.generation)

    def enter(self, step: int, cache: Cache) -> None:
        """Give each beam the past that it goes on from, and its score. The encoder's half is the same for all."""
        beam_idx = self.inputs.get("input.beam_idx")
        if beam_idx is None or step == 0:
            return
        rows = beam_idx[step]
        cache.keys = [one[rows] for one in cache.keys]
        cache.values = [one[rows] for one in cache.values]
        if step > self.choosing[0]:
            ids = self.inputs["input.decoder_input_ids"][:, sum(self.steps[:step])]
            self.scores = beam_scores(self.scores, self.logits[-1], ids, rows, arithmetic=self.arithmetic)
            self.tap(step, "beam_scores", self.scores)

    def leave(self, step: int, logits: Array) -> None:
        """Choose by a step's logits; behind the last one, the scores of what a search returns."""
        generation = self.case.generation
        if step not in self.choosing:
            return
        self.logits.append(logits[:, -1])
        stop, ids = sum(self.steps[: step + 1]), self.inputs["input.decoder_input_ids"]
        if generation.strategy == "sample":
            real = self.inputs["input.decoder_attention_mask"][:, :stop].astype(bool)
            seen = next_token_probs.seen_ids(ids[:, :stop], real, logits.shape[-1])
            probs = next_token_probs.forward(logits[:, -1], seen, sampling_of(generation), arithmetic=self.arithmetic)
            self.tap(step, "next_token_probs", probs)
        if generation.strategy == "beam" and step == len(self.steps) - 1:
            first = self.choosing[0] + 1
            forced, beam_idx = ids[:, generation.prompt_length :], self.inputs["input.beam_idx"][first:]
            search = search_of(generation, self.case.max_new_tokens)
            found = beam_search(self.logits, forced, beam_idx, search, arithmetic=self.arithmetic)
            self.tap(0, "sequences_scores", np.asarray(found[1], self.arithmetic.dtype))


def with_scores(floors: dict[tuple[str, int], pb.Floor]) -> dict[tuple[str, int], pb.Floor]:
    """The same, with the floors of scores no less than the largest of a logit.

    A score is a sum of logits less their log-sum-exp, and a handful of numbers: how far they went in one run is luck.
    """
    least = max((floor.max for (name, _), floor in floors.items() if name == "logits"), default=0.0)
    for (name, _), floor in floors.items():
        if name in _SCORES:
            floor.rms, floor.max, floor.row = (max(one, least) for one in (floor.rms, floor.max, floor.row))
    return floors
