"""What a judge says of one recording: which ops it blames, and the first explanation of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pattern_of, pb
from qwen3_parity.blame import replay
from qwen3_parity.recording.text import tokenizer_directory

TOKENIZERS = GOLDEN_ROOT / "tokenizers"


class Blame(NamedTuple):
    """One fault: the tap patterns it may be in (the recorded tap first), and its first explanation ("" without one).

    Of a tokenizer, stages in the place of taps.
    """

    places: tuple[str, ...]
    explanation: str = ""


Judge = Callable[[Recording, Recording, Mapping[str, Array]], Sequence[Blame]]
"""`judge(golden, candidate, weights)`: the ops, or stages, that the candidate has wrong."""

MISPLACED = "tap.misplaced"
"""The explanation of a tap that was recorded at another place, in a network that is right."""


def by_replay(golden: Recording, candidate: Recording, weights: Mapping[str, Array]) -> Sequence[Blame]:
    """The ops that are wrong on their own inputs, without an explanation."""
    if golden.case.mode == pb.TOKENIZATION:
        return _wrong_stages(golden, candidate)
    failed = [verdict for verdict in replay(candidate, weights, golden) if not verdict.passed]
    places = {pattern_of(verdict.name): verdict.others for verdict in failed}
    return [Blame((place, *map(pattern_of, others))) for place, others in places.items()]


def by_diagnosis(golden: Recording, candidate: Recording, weights: Mapping[str, Array]) -> Sequence[Blame]:
    """The faults of a whole diagnosis, each with its first explanation or finding."""
    if golden.case.mode == pb.TOKENIZATION:
        return _explained_stages(golden, candidate)
    from qwen3_parity.diagnosis import diagnose  # what explains is not loaded with what hides

    diagnosis = diagnose(golden, candidate, weights)
    misplaced = [Blame(misplacement.places, MISPLACED) for misplacement in diagnosis.misplaced]
    return [*(Blame(fault.places, fault.name) for fault in diagnosis.faults), *misplaced]


@cache
def _oracle(directory: Path) -> Any:
    from qwen3_parity.text.oracle import Oracle

    return Oracle.of(directory)


def _wrong_stages(golden: Recording, candidate: Recording) -> Sequence[Blame]:
    from qwen3_parity.text.blame import blame

    oracle = _oracle(tokenizer_directory(golden.case, TOKENIZERS))
    failed = [verdict for verdict in blame(oracle, candidate) if verdict.is_right is False]
    return [Blame(places) for places in dict.fromkeys((verdict.stage, *verdict.others) for verdict in failed)]


def _explained_stages(golden: Recording, candidate: Recording) -> Sequence[Blame]:
    from qwen3_parity.diagnosis.text import diagnose_tokenization

    diagnosis = diagnose_tokenization(golden, candidate, tokenizer_directory(golden.case, TOKENIZERS))
    return [Blame((fault.stage, *fault.others), fault.name) for fault in diagnosis.faults]


def short(pattern: str) -> str:
    """A tap pattern as `Mutant.wrong` has it: without stack and layer, where there is a layer."""
    if pattern.startswith("gradient."):
        return f"gradient.{short(pattern.removeprefix('gradient.'))}"
    return pattern.partition(".layers.")[2].partition(".")[2] or pattern
