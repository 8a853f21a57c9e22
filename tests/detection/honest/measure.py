"""Headrooms from measurements: the worst that honest runs use, the least that a seeded bug uses, and what fits between.

A headroom is a number of noise floors (kind "run") or of rounding units (kind "op"), and so are the errors here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from typing import NamedTuple

from google.protobuf import text_format

from qwen3_golden import pb
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import Verdicts

MEASURES = ("rms", "max", "row", "head")
MOST_USED = 0.5
"""Honest runs use at most this share of a budget; a seeded bug at least `LEAST_SEEDED` budgets."""
SLACK = 16.0
"""A headroom is at most this many times the worst honest error."""
LEAST_SEEDED = 2.0
_STEPS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0)


class Key(NamedTuple):
    """What is measured: kind "run" or "op", the op, and one of `MEASURES`."""

    kind: str
    op: str
    measure: str


class Worst(NamedTuple):
    """The largest error, in floors or units, and where it was found."""

    error: float
    where: str


Errors = dict[Key, Worst]


def errors_of(verdicts: Verdicts, ops: Iterable[OpVerdict], label: str) -> Errors:
    """The worst error at each op of one run, against the golden and on its own inputs; `label` says whose run."""
    errors_by_key: Errors = {}
    for tap in verdicts.taps:
        if tap.shares is not None:
            budget = headroom("run", tap.op)
            errors = {measure: getattr(tap.shares, measure) * getattr(budget, measure) for measure in MEASURES}
            _note(errors_by_key, "run", tap.op, errors, f"{label}, {verdicts.case.name}: {tap.where}")
    for op in ops:
        if not op.reason and not op.others:  # a group of ops has no unit of its own
            where = f"{label}, {verdicts.case.name}: {op.name} (step {op.step})"
            _note(errors_by_key, "op", op.op, op.errors._asdict(), where)
    return errors_by_key


def _note(into: Errors, kind: str, op: str, errors: Mapping[str, float], where: str) -> None:
    for measure, error in errors.items():
        key = Key(kind, op, measure)
        if error > into.get(key, Worst(0.0, "")).error:
            into[key] = Worst(error, where)


def worst(measured: Iterable[Errors]) -> Errors:
    """The larger of each, over all runs."""
    largest: Errors = {}
    for errors in measured:
        for key, error in errors.items():
            if error.error > largest.get(key, Worst(0.0, "")).error:
                largest[key] = error
    return largest


@dataclass(frozen=True)
class Row:
    """One number of a row of tolerances.textproto, and what was measured for it; `seeded` in budgets, None: unknown."""

    kind: str
    op: str
    measure: str
    headroom: float
    honest: Worst
    seeded: float | None = None

    @property
    def share(self) -> float:
        """What honest runs use of it."""
        return self.honest.error / self.headroom

    @property
    def problems(self) -> list[str]:
        """Which rules it breaks, in words; none for a number that nothing honest uses at all."""
        broken_rules = []
        if self.is_tight:
            broken_rules.append(f"honest runs use {self.share:.2f} of it, more than {MOST_USED}")
        if self.is_slack:
            broken_rules.append(f"it is {1 / self.share:.0f} × the worst honest error, more than {SLACK:g}")
        if self.seeded is not None and self.seeded < LEAST_SEEDED:
            broken_rules.append(f"the smallest seeded bug uses {self.seeded:.2f} budgets, less than {LEAST_SEEDED:g}")
        return broken_rules

    @property
    def is_tight(self) -> bool:
        """Whether honest runs use more than half of it."""
        return self.share > MOST_USED

    @property
    def is_slack(self) -> bool:
        """Whether it is too far from anything honest, and a smaller round number is not."""
        return 0 < self.honest.error * SLACK < self.headroom and self.proposed < self.headroom

    @property
    def proposed(self) -> float:
        """The round number nearest to the present one that fits; the present one where it does.

        Cases are small and a slack number may be owed to wider networks: it is moved no further than the rule asks.
        """
        needed, allowed = self.honest.error / MOST_USED, self.honest.error * SLACK
        if needed <= self.headroom <= allowed or not self.honest.error:
            return self.headroom
        numbers = list(takewhile(lambda number: number / 2 <= max(needed, allowed, _STEPS[0]), _round_numbers()))
        fit = [number for number in numbers if needed <= number <= allowed]
        least = next(number for number in numbers if number >= needed)
        return least if self.headroom < needed or not fit else max(fit)


def _round_numbers() -> Iterator[float]:
    yield from _STEPS
    yield from count(_STEPS[-1] + 10, 10)


def rows(table: pb.Tolerances, measured: Errors, seeded: Mapping[tuple[str, str], float] | None = None) -> list[Row]:
    """Every number of the table with what belongs to it; an op without a row belongs to its kind's common one.

    `seeded`: the budgets that the smallest seeded bug uses, by (kind, op).
    """
    own_rows = {(row.kind, row.op) for row in table.headroom}
    measured_rows = []
    for row in table.headroom:
        of = [key for key in measured if key.kind == row.kind and _row_of(key, own_rows) == row.op]
        least = (seeded or {}).get((row.kind, row.op))
        for measure in MEASURES:
            errors = [measured[key] for key in of if key.measure == measure]
            honest = max(errors, default=Worst(0.0, "nothing"), key=lambda error: error.error)
            measured_rows.append(Row(row.kind, row.op, measure, getattr(row, measure), honest, least))
    return measured_rows


def _row_of(key: Key, own_rows: set[tuple[str, str]]) -> str:
    return key.op if (key.kind, key.op) in own_rows else ""


def proposed(table: pb.Tolerances, measured_rows: Iterable[Row]) -> pb.Tolerances:
    """The table with what was measured, and another number wherever a rule asks for one.

    The worst honest error on record never shrinks: some of it was measured on wider ops than any case has.
    Raises `ValueError` where no number leaves honest runs half of it and the smallest seeded bug twice.
    """
    new = pb.Tolerances.FromString(table.SerializeToString())
    by_row: dict[tuple[str, str], list[Row]] = {}
    for entry in measured_rows:
        by_row.setdefault((entry.kind, entry.op), []).append(entry)
    for row in new.headroom:
        measured = [entry for entry in by_row.get((row.kind, row.op), []) if entry.honest.error]
        for entry in measured:
            if entry.problems:
                setattr(row, entry.measure, entry.proposed)
            if entry.seeded is not None and entry.seeded * entry.headroom < LEAST_SEEDED * getattr(row, entry.measure):
                raise ValueError(
                    f"{entry.kind} {entry.op or 'every op'} {entry.measure}: honest runs need {entry.proposed:g}, "
                    f"the smallest seeded bug allows {entry.seeded * entry.headroom / LEAST_SEEDED:.3g}; "
                    f"see {entry.honest.where}"
                )
            setattr(
                row.honest, entry.measure, max(getattr(row.honest, entry.measure), round(entry.honest.error + 5e-3, 2))
            )
            row.smallest_mutant = entry.seeded or row.smallest_mutant
        if measured and row.kind == "run":
            row.measured = described(measured)
    return new


def unfit(table: pb.Tolerances) -> list[str]:
    """Every number of the table that does not fit its own record, in words: loosened, or never measured."""
    problems = []
    for row in table.headroom:
        for measure in MEASURES:
            honest = Worst(getattr(row.honest, measure), "on record")
            seeded = row.smallest_mutant or None
            entry = Row(row.kind, row.op, measure, getattr(row, measure), honest, seeded)
            problems += [f"{row.kind} {row.op or 'every other op'} {measure}: {problem}" for problem in entry.problems]
        if row.op and not (row.honest.rms and row.honest.max):
            problems.append(f"{row.kind} {row.op}: no measurement on record")
    return problems


def described(measured: Iterable[Row]) -> str:
    """What was measured for a row, in one sentence for each number."""
    parts = [f"{entry.measure} {entry.honest.error:.2f} ({entry.honest.where})" for entry in measured]
    least = {entry.seeded for entry in measured if entry.seeded is not None}
    seeded = f" Smallest seeded bug: {min(least):.3g} budgets." if least else ""
    return f"Worst honest: {'; '.join(parts)}.{seeded}"


def written(table: pb.Tolerances, head: str) -> str:
    """The table as text, below the comment `head`."""
    return head + text_format.MessageToString(table, as_utf8=True)
