"""Whether a wrong way to compute a stage reproduces what a candidate made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qwen3_golden import pb
from qwen3_golden.stages import ENCODING
from qwen3_parity.text.blame import StageVerdict
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import State, Wrong
from qwen3_parity.text.table import TABLE

ENCODES = ENCODING[: ENCODING.index("ids") + 1]
"""The stages from a text to its ids."""


def run_with(oracle: Oracle, message: Any, wrong: Wrong, stages: Sequence[str], state: State) -> State:
    """Compute these stages, `wrong` in the place of the right one."""
    for stage in stages:
        compute = wrong.compute if stage == wrong.stage else TABLE[stage].truth
        state[stage] = compute(oracle, message, state)
    return state


def value(oracle: Oracle, verdict: StageVerdict, wrong: Wrong) -> Any:
    """What the verdict's stage would be with `wrong`.

    It is done in the stage, in one before it that is not delivered, or in the encoding of texts inside the stage.
    """
    by_encoding = TABLE[verdict.stage].by_encoding
    if wrong.stage in verdict.stages or by_encoding is None:
        return run_with(oracle, verdict.message, wrong, verdict.stages, dict(verdict.inputs))[verdict.stage]

    def encode(text: str) -> Sequence[int]:
        ids: Sequence[int] = run_with(oracle, pb.Encoding(text=text), wrong, ENCODES, {})["ids"].whole
        return ids

    return by_encoding(oracle, verdict.message, verdict.inputs, encode)


def reproduces(oracle: Oracle, verdict: StageVerdict, wrong: Wrong) -> bool:
    """Whether the candidate's value is the one that `wrong` gives; not where `wrong` cannot be tried."""
    try:
        return verdict.same(value(oracle, verdict, wrong))
    except (LookupError, ValueError, TypeError):  # garbage of a candidate, where a wrong way presupposes sense
        return False


def merged_as_its_ids(oracle: Oracle, verdict: StageVerdict, wrong: Wrong) -> bool:
    """Whether the pieces of a wrong way to merge are those of the ids that the candidate has for its pre-tokens."""
    state = run_with(oracle, verdict.message, wrong, verdict.stages, dict(verdict.inputs))
    known = oracle.vocabulary
    pieces = [tuple(known[piece] for piece in pieces if piece in known) for pieces in state.get("cut", ())]
    return bool(TABLE["ids"].observed(verdict.message).each == tuple(pieces))
