"""Tokenizations for a person: what a recording holds, text by text, and verdicts counted stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from qwen3_golden import Recording, pb, selected
from qwen3_golden.stages import STAGES_OF
from qwen3_parity.judge.verdict import Problem, Verdicts
from qwen3_parity.text.inputs import messages_of
from qwen3_parity.text.stages.ids import EACH
from qwen3_parity.text.table import TABLE
from qwen3_parity.text.view import View, escaped

_MOST = 200
"""Characters of a stage that are shown, unless it is asked for by its name."""


class StageCount(NamedTuple):
    """How many texts had a stage compared, and how many of them differ."""

    stage: str
    compared: int
    differing: int


def by_stage(verdicts: Verdicts) -> list[StageCount]:
    """The stages that were compared, in order."""
    stages = dict.fromkeys(tap.name for tap in verdicts.taps)
    taps_of = {stage: [tap for tap in verdicts.taps if tap.name == stage] for stage in stages}
    return [StageCount(stage, len(taps), sum(not tap.passed for tap in taps)) for stage, taps in taps_of.items()]


def is_tokenization(verdicts: Verdicts) -> bool:
    """Whether a tokenizer was judged: everything is exact, and what is counted are stages of texts."""
    return verdicts.case.mode == pb.TOKENIZATION


def shown_problems(verdicts: Verdicts) -> list[Problem]:
    """The failures that a page begins with: of a tokenizer's text only the first, what follows is often downstream."""
    if not is_tokenization(verdicts):
        return verdicts.problems
    problems = [tap.problem for tap in verdicts.taps if tap.problem is not None]
    return [*verdicts.structural, *(problem for problem in problems if problem.where == problem.first_bad)]


def stages_table(verdicts: Verdicts) -> Table:
    """A row for each stage."""
    table = Table("stage", "compared", "differ", box=None)
    for stage, compared, differing in by_stage(verdicts):
        table.add_row(stage, str(compared), str(differing), style="red" if differing else None)
    return table


def texts_table(recording: Recording, taps: Sequence[str] = ()) -> Table:
    """A row for each stage of each text that a glob of `taps` ("tokenizer.pre_tokens") selects; cut without one."""
    table = Table("of", "stage", "", box=None)
    table.columns[0].overflow = table.columns[2].overflow = "fold"
    for kind, stages in STAGES_OF.items():
        for message in messages_of(recording.tokenization, kind):
            name = escaped(message.name)
            for stage in stages:
                if selected(f"tokenizer.{stage}", taps) and (taps or TABLE[stage].has(message)):
                    views = {label: view for label, view in TABLE[stage].views(message).items() if label != EACH}
                    shown = "; ".join(_shown(label, view, len(views) > 1) for label, view in views.items())
                    shown = shown if taps or len(shown) <= _MOST else f"{shown[:_MOST]}…"
                    table.add_row(Text(name), stage, Text(shown))
                    name = ""
            if name and not taps:
                table.add_row(Text(name), "", "nothing")
    return table


def _shown(label: str, view: View, several: bool) -> str:
    return (f"{label}: " if several else "") + view.glue.join(map(view.show, range(len(view.items))))
