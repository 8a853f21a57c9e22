"""What a command says when it is done: a table, one line, everything, or JSON; and its refusals."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, NoReturn

from rich.console import RenderableType

from qwen3_golden import ParityError
from qwen3_parity.judge.plain import plain
from qwen3_parity.report.progress import Progress, progress
from qwen3_parity.report.terminal import show

SCHEMA = 2
"""Of the JSON of every command, see schema.json here; a key that goes, or means something else, raises it."""


@dataclass(frozen=True)
class Output:
    """How a command was asked to answer: --json, -q (the verdict's line alone), -v (everything), or as people read."""

    command: str
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False

    @contextmanager
    def progress(self, text: str, unit: str = "") -> Iterator[Progress]:
        """As `report.progress`, nothing with -q; standard output is left to the JSON, whoever else prints."""
        with progress(text, unit, silent=self.quiet) as update, ExitStack() as stack:
            if self.as_json:
                stack.enter_context(redirect_stdout(sys.stderr))
            yield update

    def say(self, *parts: RenderableType) -> None:
        """What comes before the end: for people alone, and not with -q."""
        if not self.as_json and not self.quiet:
            show(parts)

    def finish(
        self,
        exit_code: int,
        verdict: str,
        data: Callable[[], Mapping[str, Any]],
        shown: Callable[[], Iterable[RenderableType]],
    ) -> NoReturn:
        """Print the `verdict`'s line with -q, `data` as JSON with --json, else what is `shown`; exit with the code."""
        if self.as_json:
            print(envelope(self.command, exit_code, data()))
        else:
            show([verdict] if self.quiet else shown())
        sys.exit(exit_code)


def envelope(command: str, exit_code: int, data: Mapping[str, Any]) -> str:
    """The JSON of a command: its keys behind those that every command has; NaN and infinities as strings."""
    whole = {"schema": SCHEMA, "command": command, "exit_code": exit_code} | plain({**data, "exit_code": exit_code})
    return json.dumps(whole, indent=2, allow_nan=False)


def refusal(error: ParityError) -> dict[str, str]:
    """An error's parts by their names."""
    names = ("where", "rule", "expected", "got", "next_step", "fault")
    return {name: getattr(error, name) for name in names}
