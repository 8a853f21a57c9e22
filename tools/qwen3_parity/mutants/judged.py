"""What a judge says of one recording: which ops it blames, and the first explanation of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from qwen3_golden import Array, Recording, pattern_of
from qwen3_parity.blame import replay


class Blame(NamedTuple):
    """One fault: the tap patterns it may be in (the recorded tap first), and its first explanation ("" without one)."""

    places: tuple[str, ...]
    explanation: str = ""


Judge = Callable[[Recording, Recording, Mapping[str, Array]], Sequence[Blame]]
"""`judge(golden, candidate, weights)`: the ops that the candidate has wrong."""

MISPLACED = "tap.misplaced"
"""The explanation of a tap that was recorded at another place, in a network that is right."""


def by_replay(golden: Recording, candidate: Recording, weights: Mapping[str, Array]) -> Sequence[Blame]:
    """The ops that are wrong on their own inputs, without an explanation."""
    failed = [one for one in replay(candidate, weights, golden) if not one.passed]
    found = {pattern_of(one.name): one.others for one in failed}
    return [Blame((place, *map(pattern_of, others))) for place, others in found.items()]


def by_diagnosis(golden: Recording, candidate: Recording, weights: Mapping[str, Array]) -> Sequence[Blame]:
    """The faults of a whole diagnosis, each with its first explanation or finding."""
    from qwen3_parity.diagnosis import diagnose  # what explains is not loaded with what hides

    found = diagnose(golden, candidate, weights)
    misplaced = [Blame(one.places, MISPLACED) for one in found.misplaced]
    return [*(Blame(one.places, one.name) for one in found.faults), *misplaced]


def short(pattern: str) -> str:
    """A tap pattern as `Mutant.wrong` has it: without stack and layer, where there is a layer."""
    return pattern.partition(".layers.")[2].partition(".")[2] or pattern
