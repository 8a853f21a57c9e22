"""The command that a failure leads to."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.judge.verdict import Verdicts

IN_MEMORY = "recording in memory"
"""The source of a recording that was read from no file."""


def diagnose_command(golden: str, candidate: str) -> str:
    """The command that diagnoses a candidate; a committed golden is found by the case's name."""
    if IN_MEMORY in (golden, candidate):
        return "write the recording to a file, then: qwen3-parity diagnose FILE"
    return command("diagnose", *([] if _is_committed(golden) else [golden]), candidate)


def show_command(name: str, golden: str | Path, *arguments: str) -> str:
    """The command that shows a golden: a committed one by the name of its case, another one by its file."""
    return command("show", name if _is_committed(golden) else golden, *arguments)


def _is_committed(golden: str | Path) -> bool:
    return Path(golden).is_relative_to(GOLDEN_ROOT / "cases")


def command(verb: str, *arguments: str | Path) -> str:
    """A command for a shell, whatever stands in its paths."""
    return shlex.join(["qwen3-parity", *verb.split(), *map(str, arguments)])


def with_model(verdicts: Verdicts, model: str | None) -> Verdicts:
    """The verdicts with `--model` in each next command that diagnoses the candidate."""
    if model is None:
        return verdicts
    plain = diagnose_command(verdicts.golden, verdicts.candidate)
    whole = f"{plain} {shlex.join(['--model', model])}"
    structural = [replace(p, next_step=whole) if p.next_step == plain else p for p in verdicts.structural]
    taps = [
        replace(tap, problem=replace(tap.problem, next_step=whole))
        if tap.problem is not None and tap.problem.next_step == plain
        else tap
        for tap in verdicts.taps
    ]
    return replace(verdicts, structural=structural, taps=taps)
