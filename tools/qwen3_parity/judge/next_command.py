"""The command that a failure leads to."""

from __future__ import annotations

import shlex
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT

IN_MEMORY = "recording in memory"
"""The source of a recording that was read from no file."""


def diagnose_command(golden: str, candidate: str) -> str:
    """The command that diagnoses a candidate; a committed golden is found by the case's name."""
    if IN_MEMORY in (golden, candidate):
        return "write the recording to a file, then: qwen3-parity diagnose FILE"
    committed = Path(golden).is_relative_to(GOLDEN_ROOT / "cases")
    return command("diagnose", *([] if committed else [golden]), candidate)


def command(verb: str, *arguments: str | Path) -> str:
    """A command for a shell, whatever stands in its paths."""
    return shlex.join(["qwen3-parity", verb, *map(str, arguments)])
