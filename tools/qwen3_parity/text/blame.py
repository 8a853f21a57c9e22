"""Which stages of a tokenization are wrong: each judged on the candidate's own earlier stages.

So one early fault hides no later one. Stages that a candidate does not deliver are computed through, and judged with
the next one that it delivers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from qwen3_golden import Recording
from qwen3_golden.stages import STAGES_OF
from qwen3_parity.text.inputs import messages_of
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import State
from qwen3_parity.text.stages.ids import follow_from_merges
from qwen3_parity.text.table import SHOW_PRE_TOKENS, TABLE


@dataclass(frozen=True, eq=False)
class StageVerdict:
    """One stage of one text on its own inputs.

    `others` are the stages before it that are not delivered. `inputs` are the values of the stages before those,
    `message` is what was recorded, `right` is None where it cannot be judged.
    """

    stage: str
    others: tuple[str, ...]
    message: Any
    inputs: State
    actual: Any
    expected: Any
    is_right: bool | None

    @property
    def stages(self) -> tuple[str, ...]:
        """The group that is judged together."""
        return *self.others, self.stage

    def same(self, value: Any) -> bool:
        """Whether the candidate's value is this one, where more than one is right: one of those."""
        return TABLE[self.stage].same(self.actual, value, self.inputs)


def from_other_merges(oracle: Oracle, verdict: StageVerdict) -> bool:
    """Whether wrong ids may only be those of merges at other places, which ranks alone do not say."""
    alone = verdict.stage == "ids" and not verdict.others
    return alone and follow_from_merges(oracle, verdict.actual, verdict.expected, verdict.inputs)


def judged(oracle: Oracle, message: Any, stages: Sequence[str], delivered: Sequence[str]) -> Iterator[StageVerdict]:
    """The delivered stages of one text, in order."""
    state: State = {}
    base: State = {}
    others: tuple[str, ...] = ()
    for name in stages:
        stage, after = TABLE[name], dict(state)
        expected = stage.truth(oracle, message, after)
        if name not in delivered:
            others = (*others, name)
            state = after | {name: expected}
            continue
        actual = stage.observed(message)
        if name == "ids" and not SHOW_PRE_TOKENS & set(delivered):
            actual = actual._replace(each=None)
        passed = None
        if expected is not None:
            passed = stage.same(actual, expected, state) or stage.allowed(oracle, message, actual, expected, state)
        yield StageVerdict(name, others, message, base, actual, expected, passed)
        state[name] = actual
        base, others = dict(state), ()


def blame(oracle: Oracle, candidate: Recording) -> list[StageVerdict]:
    """Every stage that the candidate delivers, of each of its texts."""
    return [
        verdict
        for kind, stages in STAGES_OF.items()
        for message in messages_of(candidate.tokenization, kind)
        for verdict in judged(oracle, message, stages, candidate.run.materialised)
    ]
