"""Named wrong ways to compute a stage, as data, and whether one of them reproduces what a candidate made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from qwen3_golden import pb
from qwen3_golden.stages import ENCODING
from qwen3_parity.text.blame import StageVerdict
from qwen3_parity.text.oracle import Oracle, State
from qwen3_parity.text.stages_of import TRUTH

Compute = Callable[[Oracle, Any, State], Any]
"""A stage's value from the given fields and the values of the stages before it."""


@dataclass(frozen=True)
class Wrong:
    """A wrong way: `name` begins with its stage, `says` what is done and `fix` what to do instead, a line each."""

    name: str
    says: str
    fix: str
    compute: Compute

    @property
    def stage(self) -> str:
        """The stage that it computes."""
        return self.name.split(".")[0]


def wrong_ways(stage: str, fix: str, rows: Iterable[tuple[str, str, Compute]]) -> list[Wrong]:
    """Rows (name within the stage, what is done, how) that share a remedy."""
    return [Wrong(f"{stage}.{name}", says, fix, compute) for name, says, compute in rows]


def value(oracle: Oracle, verdict: StageVerdict, wrong: Wrong) -> Any:
    """What the verdict's stage would be if `wrong` were done in it, or in an untold one before it."""
    state = dict(verdict.inputs)
    for stage in verdict.stages:
        compute = wrong.compute if stage == wrong.stage else TRUTH[stage]
        state[stage] = compute(oracle, verdict.given, state)
    return state[verdict.stage]


def encoded(oracle: Oracle, given: Any, wrong: Wrong) -> list[int]:
    """The ids of a whole text (`given`: an Encoding) if `wrong` were done in one of the stages of an encoding."""
    state: State = {}
    for stage in ENCODING[: ENCODING.index("ids") + 1]:
        compute = wrong.compute if stage == wrong.stage else TRUTH[stage]
        state[stage] = compute(oracle, given, state)
    return list(state["ids"].whole)


def reproduces(oracle: Oracle, verdict: StageVerdict, wrong: Wrong) -> bool:
    """Whether the candidate's value is the one that `wrong` gives; not where `wrong` cannot be tried."""
    try:
        return verdict.same(oracle, value(oracle, verdict, wrong))
    except (LookupError, ValueError, TypeError):  # garbage of a candidate, where a wrong way presupposes sense
        return False


def encoded_in(oracle: Oracle, verdict: StageVerdict, wrong: Wrong) -> bool:
    """Whether `wrong`, done in the encoding inside a batch or of a rendered text, gives the candidate's value."""
    from qwen3_parity.text.hypotheses.rectangle import Shape, rectangle

    try:
        if verdict.stage == "rendered_ids":
            rendered = verdict.inputs.get("rendered") or verdict.given.rendered
            return bool(verdict.got == tuple(encoded(oracle, pb.Encoding(text=rendered), wrong)))
        rows = [encoded(oracle, pb.Encoding(text=text), wrong) for text in verdict.given.text]
        return bool(verdict.got == rectangle(rows, Shape.of(oracle, verdict.given)))
    except (LookupError, ValueError, TypeError):
        return False


def merged_as_its_ids(oracle: Oracle, verdict: StageVerdict, wrong: Wrong) -> bool:
    """Whether the pieces of a wrong way to merge are those of the ids that the candidate tells of its pre-tokens."""
    state = dict(verdict.inputs)
    for stage in verdict.stages:
        state[stage] = (wrong.compute if stage == wrong.stage else TRUTH[stage])(oracle, verdict.given, state)
    told = [tuple(piece.id) for segment in verdict.given.segment for piece in segment.pre_token]
    known = oracle.vocabulary
    return told == [tuple(known[piece] for piece in pieces if piece in known) for pieces in state.get("cut", ())]
