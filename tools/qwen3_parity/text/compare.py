"""The judge of tokenizers: one recording against another, text by text and stage by stage. Everything is exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from qwen3_golden import STAGES, ParityError, Recording
from qwen3_golden.stages import STAGES_OF
from qwen3_parity.judge.compare import Metrics
from qwen3_parity.judge.match import refuse, same_case
from qwen3_parity.judge.next_command import diagnose_command
from qwen3_parity.judge.verdict import Problem, Verdict, Verdicts
from qwen3_parity.text.inputs import RESULT, inputs_of, messages_of
from qwen3_parity.text.stages.ids import EACH
from qwen3_parity.text.table import SHOW_PRE_TOKENS, TABLE
from qwen3_parity.text.view import Difference, Views, compared, escaped


def check_tokenization(golden: Recording, candidate: Recording) -> Verdicts:
    """Judge a tokenizer's recording by a golden: a verdict for each stage of each text, in order.

    A verdict's name is "tokenizer." and the stage, its step the index of the text (or of the list of ids, the batch,
    the conversation). Raises `ParityError` when the candidate was given something else.
    """
    same_case(candidate, golden)
    _same_inputs(candidate, golden)
    delivered = _delivered(candidate, golden)
    taps = list(_verdicts(golden, candidate, delivered.both))
    if not taps:
        zero = Problem(
            candidate.source,
            "zero comparisons: not one stage was judged",
            expected=f"stages of {golden.case.name}: {', '.join(golden.run.materialised)}",
            got=", ".join(candidate.run.materialised) or "none declared",
            next_step=f"qwen3-parity show {candidate.source}",
        )
        delivered.problems.append(zero)
    kinds = [(stage, messages_of(golden.tokenization, kind)) for kind, stage in RESULT.items()]
    return Verdicts(
        case=golden.case,
        golden=golden.source,
        candidate=candidate.source,
        arithmetic=candidate.run.arithmetic,
        backend=candidate.run.backend,
        taps=taps,
        structural=delivered.problems,
        not_materialised=delivered.not_materialised,
        missing=delivered.missing,
        results=[(f"tokenizer.{stage}", index) for stage, messages in kinds for index in range(len(messages))],
    )


def joined(parts: Sequence[Verdicts]) -> Verdicts:
    """The verdicts on several recordings by one tokenizer as those on one; the step of each is the part's number."""
    return replace(
        parts[0],
        taps=[replace(tap, step=index) for index, part in enumerate(parts) for tap in part.taps],
        structural=[problem for part in parts for problem in part.structural],
        missing=sum(part.missing for part in parts),
        results=[(name, index) for index, part in enumerate(parts) for name, _ in part.results],
    )


def _verdicts(golden: Recording, candidate: Recording, both: Sequence[str]) -> Iterator[Verdict]:
    """Text by text, each stage by stage; all of a text's problems name the first stage of it that fails."""
    next_step = diagnose_command(golden.source, candidate.source)
    left_out = () if set(both) & SHOW_PRE_TOKENS else (EACH,)
    for kind, stages in STAGES_OF.items():
        expected, actual = (messages_of(recording.tokenization, kind) for recording in (golden, candidate))
        for index, (theirs, ours) in enumerate(zip(expected, actual, strict=True)):
            first = ""
            for stage in (stage for stage in stages if stage in both):
                metrics, difference = _judge(stage, theirs, ours, left_out)
                verdict = Verdict(f"tokenizer.{stage}", index, stage, exact=True, metrics=metrics)
                if difference is not None:
                    where = f"{verdict.name} of {escaped(theirs.name)}"
                    first = first or where
                    verdict = replace(verdict, problem=Problem(where, *difference, next_step, first_bad=first))
                yield verdict


def _judge(name: str, expected: Any, actual: Any, left_out: Sequence[str]) -> tuple[Metrics, Difference | None]:
    stage = TABLE[name]
    if stage.differs is not None:
        difference = stage.differs(expected, actual)
        return Metrics(max(len(stage.observed(expected)), 1), int(difference is not None)), difference

    def views(message: Any) -> Views:
        return {label: view for label, view in stage.views(message).items() if label not in left_out}

    text = getattr(expected, "text", "")
    count, differing, difference = compared(views(expected), views(actual), text if isinstance(text, str) else "")
    return Metrics(count, differing), difference


def _same_inputs(candidate: Recording, golden: Recording) -> None:
    """Raise `ParityError` naming the text and the field in which the candidate was given something else."""
    ours, theirs = inputs_of(candidate.tokenization), inputs_of(golden.tokenization)
    for kind in STAGES_OF:
        expected, actual = messages_of(theirs, kind), messages_of(ours, kind)
        names = Counter(message.name for message in expected)
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
        for index, (golden_message, message) in enumerate(zip(expected, actual, strict=False)):
            if golden_message != message:
                fields = [field.name for field in golden_message.DESCRIPTOR.fields]
                field = next(name for name in fields if getattr(golden_message, name) != getattr(message, name))
                where = f"{kind} {index} ({escaped(golden_message.name)}), field {field}"
                raise refuse(candidate, where, _short(getattr(golden_message, field)), _short(getattr(message, field)))
        if len(expected) != len(actual):
            raise refuse(candidate, kind, f"{len(expected)} of them", len(actual))


def _short(value: object) -> str:
    text = ascii(value if isinstance(value, str | int) else list(value))  # type: ignore[call-overload]
    return text if len(text) <= 200 else f"{text[:200]}…"


class _Delivered(NamedTuple):
    """`both`: the stages that the golden has and the candidate too, in order."""

    both: Sequence[str]
    problems: list[Problem]
    not_materialised: list[str]
    missing: int


def _delivered(candidate: Recording, golden: Recording) -> _Delivered:
    """Hold what the candidate declares, what it delivers, the names of stages and the golden against each other."""
    declared = set(candidate.run.materialised)
    both, problems, not_materialised = list[str](), list[Problem](), list[str]()
    missing = 0

    def problem(stage: str, rule: str, expected: str, got: str) -> None:
        where = f"tokenizer.{escaped(stage)}"
        problems.append(Problem(where, rule, expected, got, f"qwen3-parity show {candidate.source}"))

    for name in sorted(declared - set(STAGES)):
        problem(name, "declared, but no such stage", ", ".join(STAGES), ascii(name))
    for kind, stages in STAGES_OF.items():
        expected = messages_of(golden.tokenization, kind)
        actual = messages_of(candidate.tokenization, kind)
        for stage in stages if expected else ():
            if stage not in golden.run.materialised:
                continue
            there = any(map(TABLE[stage].has, actual))
            if stage in declared and (there or not any(map(TABLE[stage].has, expected))):
                both.append(stage)
            elif stage in declared:
                problem(stage, "declared, but never delivered", "as the golden has it", "nothing in any text")
                missing += len(expected)
            else:
                not_materialised += [f"tokenizer.{stage} of {escaped(message.name)}" for message in expected]
            if there and stage not in declared:
                problem(stage, "delivered but not declared", "its name in run.materialised", "not there")
    return _Delivered(both, problems, not_materialised, missing)
