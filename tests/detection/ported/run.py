"""A row run in the model that transformers makes of the changed source, recorded at a level, and judged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import torch

from detection.families.judged import Judge, modules_of, wrong_taps
from detection.families.subject import Subject, subject
from detection.ported.near import is_exact, is_near
from detection.ported.row import Row
from detection.ported.substituted import substituted, text
from qwen3_golden import Recording
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.explained import REFERENCE, Explained
from qwen3_parity.slices.network import network

LEVELS: Mapping[str, re.Pattern[str]] = {
    "all": re.compile(""),
    "modules": re.compile(""),
    "layers": re.compile(
        r"(input\..*|logits|lm_head|((?!layers?\.|h\.)\w+\.)*(embed\w*|\w*norm\w*|(layers?|h)\.\d+))(\[\d+\])?$"
    ),
    "logits": re.compile(r"(input\..*|logits)$"),
}
"""The names of the taps that are recorded; what no module gives, as attention's values and caches, in "all" alone."""


@dataclass(frozen=True)
class Said:
    """The first answer to a fault.

    `mechanism`: it says what is done wrongly; `exact`: it names a mistaken line, `near`: or a line that makes or reads
    its values.
    """

    place: str
    name: str
    text: str
    mechanism: bool
    exact: bool
    near: bool

    @property
    def is_right(self) -> bool:
        """Whether it says what is wrong, and where."""
        return (self.mechanism or self.exact) and self.near


@dataclass(frozen=True)
class Judged:
    """A row at a level: the gap of the results in parts of the largest, and what was said of it.

    `innocents` are wrong taps that no mistaken module makes. `failure`: what the judge or the run raised.
    """

    row: str
    level: str
    gap: float = 0.0
    caught: bool = False
    said: tuple[Said, ...] = ()
    innocents: tuple[str, ...] = ()
    seconds: float = 0.0
    failure: str = ""

    @property
    def blamed(self) -> bool:
        """Whether modules are blamed that hold the mistake, and no others."""
        return bool(self.said) and not self.innocents

    @property
    def line(self) -> bool:
        """Whether the first answer names the line, or a neighbour of it."""
        return bool(self.said) and self.said[0].near

    @property
    def first(self) -> bool:
        """Whether the first answer of all is right."""
        return bool(self.said) and self.said[0].is_right

    @property
    def is_right(self) -> bool:
        """Whether the first answer to every fault is right."""
        return bool(self.said) and all(answer.is_right for answer in self.said)


def judged(row: Row, level: str) -> Judged:
    """A row at a level; a family is captured once in a process."""
    torch.set_num_threads(1)
    run, gap = subject(row.family), 0.0
    try:
        judge = _judge(row.family)
        with substituted(row):
            model = anew(run)
            gap = run.gap(run.run(model))
            whole = judge.recorded(model, lambda: run.run(model), whole=level == "all")
        return _said(row, level, gap, judge, _thinned(whole, level), model)
    except Exception as error:  # whatever it is, the other rows go on
        return Judged(row.name, level, gap, failure=f"{type(error).__name__}: {error}")


def gap(row: Row) -> float:
    """How far a row moves the results, in parts of the largest."""
    run = subject(row.family)
    with substituted(row):
        return run.gap(run.run(anew(run)))


def anew(run: Subject) -> Any:
    """The model made once more by the source as it is now, with the same weights."""
    model = type(run.model)(deepcopy(run.model.config)).eval().float().requires_grad_(False)
    model.load_state_dict(run.model.state_dict())
    return model


@cache
def _judge(family: str) -> Judge:
    folder = Path(_folder().name) / family  # the next family's golden is none of this one's
    folder.mkdir()
    return Judge.of(subject(family), folder)


@cache
def _folder() -> TemporaryDirectory[str]:
    """One as long as the process lives: a golden is read from its file."""
    return TemporaryDirectory(prefix="ported-")


def _thinned(whole: Recording, level: str) -> Recording:
    return replace(whole, tensors=[item for item in whole if LEVELS[level].match(item.key[0])])


def _said(row: Row, level: str, gap: float, judge: Judge, candidate: Recording, model: Any) -> Judged:
    start = process_time()
    result = diagnose(judge.golden, candidate, judge.weights)
    seconds = process_time() - start
    slices = network(judge.golden, candidate, judge.weights).slices
    # What the whole model makes, a module without a path, is recorded as its logits.
    guilty = {
        path for path, _ in model.named_modules() if any(fnmatchcase(path or "logits", glob) for glob in row.blame)
    } | {glob for glob in row.blame if glob == "logits"}
    wrong = [(tap.name, tap.step) for tap in wrong_taps(result)]
    innocents = [
        f"{tap} (step {step})"
        for tap, step in wrong
        if not guilty & {tap.partition("[")[0], *modules_of(slices, judge.golden, (tap, step))}
    ]
    return Judged(
        row.name,
        level,
        gap,
        bool(result.verdicts.problems or wrong),
        tuple(_first(row, fault) for fault in result.faults),
        tuple(innocents),
        seconds,
        "; ".join(result.failures),
    )


def _first(row: Row, fault: Explained) -> Said:
    """The first explanation, or else the first finding: lines of the reference alone say nothing of a port."""
    answers: Sequence[tuple[str, str]] = [(x.name, f"{x.says}; fix: {x.fix}") for x in fault.explanations]
    answers = answers or [(x.name, x.says) for x in fault.findings if x.name != REFERENCE]
    if not answers:
        return Said(fault.fault.place, "", "", mechanism=False, exact=False, near=False)
    name, says = answers[0]
    here, whole = text(row), f"{name} {says}"
    near = is_near(here, whole, row.also)
    return Said(fault.fault.place, name, says, row.fits(whole), is_exact(here, whole), near)
