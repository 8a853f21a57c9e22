"""A family put to the test: its honest runs and the mistakes seeded into it, each recorded and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from detection.families import honest, mistakes
from detection.families.judged import Judge, Said
from detection.families.models import NOTES
from detection.families.subject import Subject, subject
from qwen3_golden import ParityError

_VISIBLE = 30
"""A mistake that moves no result by this many times what honest runs move it is none that a run could show."""
_LEAST = 2e-7
_ANOTHER = 1e-2
"""How far, in parts of the largest number, results are none of the same model: not every family's state goes on alike
however its prefill is cut."""


@dataclass
class Family:
    """What came of a family. `alarms` are honest runs called wrong, `missed`, `astray` and `innocent` what is wrong of
    the judge with mistakes; `refused` says why there is no golden, or which runs the harness refused.
    """

    family: str
    note: str = ""
    refused: list[str] = field(default_factory=list)
    honest: int = 0
    alarms: list[str] = field(default_factory=list)
    mistakes: int = 0
    invisible: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    astray: list[str] = field(default_factory=list)
    innocent: list[str] = field(default_factory=list)
    worst_honest: float = 0.0
    smallest_wrong: float = float("inf")
    capture_seconds: float = 0.0
    diagnose_seconds: float = 0.0


def measured(family: str, *, compiled: bool = False, bfloat16: bool = False, few: int = 0) -> Family:
    """Capture a family, then judge every honest run and every mistake; the first `few` of each alone, if not 0."""
    here = Family(family, NOTES.get(family, ""))
    with TemporaryDirectory(prefix="families-") as folder:
        try:
            run = subject(family, bfloat16=bfloat16)
        except RuntimeError as error:
            here.refused.append(f"the model itself does not run: {error}")
            return here
        try:
            judge = Judge.of(run, Path(folder))
        except ParityError as error:
            here.refused.append(_said(error))
            return here
        here.capture_seconds = judge.seconds
        noise = _honest(here, run, judge, list(honest.runs(run, compiled=compiled))[: few or None])
        _mistaken(here, run, judge, noise, few)
    return here


def _honest(here: Family, run: Subject, judge: Judge, every: Sequence[honest.Honest]) -> float:
    """How far honest runs move the results."""
    noise = _LEAST
    for variation in every:
        with variation.on():
            try:
                gap = run.gap(run.run(steps=variation.steps))
            except RuntimeError as error:  # torch has no such kernel; the harness was not asked
                here.refused.append(f"{variation.name}: {next(iter(str(error).splitlines()), '')}")
                continue
            if gap > _ANOTHER and run.is_float32:  # half precision is as far off
                here.refused.append(f"{variation.name}: Hugging Face's own results are others, by {gap:.2g}")
                continue
            noise = max(noise, gap)
            try:
                candidate = judge.recorded(run.model, lambda steps=variation.steps: run.run(steps=steps))  # type: ignore[misc]
                said = judge.said(candidate)
            except ParityError as error:
                here.refused.append(f"{variation.name}: {_said(error)}")
                continue
        here.honest += 1
        here.worst_honest = max(here.worst_honest, said.share)
        here.diagnose_seconds = max(here.diagnose_seconds, said.seconds)
        if said.problem or said.innocent:
            here.alarms.append(f"{variation.name}: {said.share:.3g}, {said.problem or _listed(said.innocent)}")
    return noise


def _mistaken(here: Family, run: Subject, judge: Judge, noise: float, few: int) -> None:
    seeds = [(name, seed) for name, make in mistakes.MISTAKES.items() if (seed := make(run)) is not None]
    for name, seed in seeds[: few or None]:
        with seed.on():
            if run.gap(run.run()) < _VISIBLE * noise:
                here.invisible.append(name)
                continue
            try:
                candidate = judge.recorded(run.model, run.run)
            except ParityError as error:
                here.refused.append(f"{name}: {_said(error)}")
                continue
        _count(here, name, judge.said(candidate, seed.blame))


def _count(here: Family, name: str, said: Said) -> None:
    here.mistakes += 1
    here.diagnose_seconds = max(here.diagnose_seconds, said.seconds)
    if not said.problem:
        here.missed.append(name)
        return
    here.smallest_wrong = min(here.smallest_wrong, said.share)
    if not said.inside:
        here.astray.append(f"{name}: {_listed(said.innocent)}")
    elif said.innocent:
        here.innocent.append(f"{name}: {_listed(said.innocent)}")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3]) or 'nobody'}{more}"


def _said(error: ParityError) -> str:
    """A refusal in one line."""
    return f"{error.where}: {error.rule}; {error.got}"
