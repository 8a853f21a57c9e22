"""Whether two recordings of tokenizers can be compared at all, and which of their stages meet which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from qwen3_golden import STAGES, ParityError, Recording
from qwen3_parity.judge.match import refuse
from qwen3_parity.judge.verdict import Problem
from qwen3_parity.text.given import RESULT, STAGES_OF, given, items_of
from qwen3_parity.text.views import HAS, escaped


class Delivered(NamedTuple):
    """`both`: the stages that the golden has and the candidate too, in order."""

    both: Sequence[str]
    problems: list[Problem]
    not_materialised: list[str]
    missing: int


def same_given(candidate: Recording, golden: Recording) -> None:
    """Raise `ParityError` naming the text and the field in which the candidate was given something else."""
    ours, theirs = given(candidate.tokenization), given(golden.tokenization)
    for kind in STAGES_OF:
        wanted, got = items_of(theirs, kind), items_of(ours, kind)
        names = Counter(item.name for item in wanted)
        double = [name for name, count in names.items() if count > 1]
        if double:
            raise ParityError(
                f"{golden.source}: {kind} {double[0]!a}",
                "the golden has a name twice",
                expected="names that are unique",
                got=f"{names[double[0]]} of this name",
                next_step="record the golden again: qwen3-parity regenerate",
                fault="harness bug",
            )
        for index, (one, two) in enumerate(zip(wanted, got, strict=False)):
            if one != two:
                fields = [field.name for field in one.DESCRIPTOR.fields]
                field = next(name for name in fields if getattr(one, name) != getattr(two, name))
                where = f"{kind} {index} ({escaped(one.name)}), field {field}"
                raise refuse(candidate, where, _short(getattr(one, field)), _short(getattr(two, field)))
        if len(wanted) != len(got):
            raise refuse(candidate, kind, f"{len(wanted)} of them", len(got))


def _short(value: object) -> str:
    text = ascii(value if isinstance(value, str | int) else list(value))  # type: ignore[call-overload]
    return text if len(text) <= 200 else f"{text[:200]}…"


def results(golden: Recording) -> list[tuple[str, int]]:
    """The stage and the index of each text's, list's, batch's or conversation's result."""
    kinds = [(RESULT[kind], items_of(golden.tokenization, kind)) for kind in STAGES_OF]
    return [(f"tokenizer.{stage}", index) for stage, items in kinds for index in range(len(items))]


def delivered(candidate: Recording, golden: Recording) -> Delivered:
    """Hold what the candidate declares, what it delivers, the names of stages and the golden against each other."""
    declared = set(candidate.run.materialised)
    both: list[str] = []
    problems: list[Problem] = []
    not_materialised: list[str] = []
    missing = 0

    def problem(stage: str, rule: str, wanted: str, got: str) -> None:
        where = f"tokenizer.{escaped(stage)}"
        problems.append(Problem(where, rule, wanted, got, f"qwen3-parity show {candidate.source}"))

    for name in sorted(declared - set(STAGES)):
        problem(name, "declared, but no such stage", ", ".join(STAGES), ascii(name))
    for kind, stages in STAGES_OF.items():
        expected = items_of(golden.tokenization, kind)
        actual = items_of(candidate.tokenization, kind)
        for stage in stages if expected else ():
            if stage not in golden.run.materialised:
                continue
            there = any(map(HAS[stage], actual))
            if stage in declared and (there or not any(map(HAS[stage], expected))):
                both.append(stage)
            elif stage in declared:
                problem(stage, "declared, but never delivered", "as the golden has it", "nothing in any text")
                missing += len(expected)
            else:
                not_materialised += [f"tokenizer.{stage} of {escaped(item.name)}" for item in expected]
            if there and stage not in declared:
                problem(stage, "delivered but not declared", "its name in run.materialised", "not there")
    return Delivered(both, problems, not_materialised, missing)
