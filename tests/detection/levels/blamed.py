"""A diagnosis held against the taps that are wrong."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from time import process_time
from typing import NamedTuple

from detection.mutants.isolated import CHECKPOINTS
from detection.mutants.judged import short
from qwen3_golden import Recording, pattern_of
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose


class Blamed(NamedTuple):
    """A diagnosis with whom it blames.

    `places` are the tap patterns of each fault, the recorded one first, and behind the faults those of each misplaced
    tap; `innocents` the first places of those that hold no guilty tap; `missed` the wrong taps that were recorded and
    stand in none; `seconds` those of the diagnosis, of the processor.
    """

    diagnosis: Diagnosis
    places: Sequence[Sequence[str]]
    innocents: tuple[str, ...]
    missed: tuple[str, ...]
    seconds: float


def blamed(
    golden: Recording, candidate: Recording, wrong: Collection[str], also: Collection[str] = ()
) -> Blamed | None:
    """What is said of a recording, None where the check lets it pass; raises what the judge raises.

    `wrong` are the taps that must be blamed, as `Mutant` has them, `also` those that may be.
    """
    if not check(golden, candidate).exit_code:
        return None
    start = process_time()
    diagnosis = diagnose(golden, candidate, weights_of(candidate, CHECKPOINTS))
    seconds = process_time() - start
    places = [*(fault.places for fault in diagnosis.faults), *(fault.places for fault in diagnosis.misplaced)]
    groups = [frozenset(map(short, alternatives)) for alternatives in places]
    recorded = {short(pattern_of(item.info.name)) for item in candidate}
    return Blamed(
        diagnosis,
        places,
        tuple(
            alternatives[0] for alternatives, group in zip(places, groups, strict=True) if not group & {*wrong, *also}
        ),
        tuple(sorted((recorded & {*wrong}).difference(*groups))),
        seconds,
    )
