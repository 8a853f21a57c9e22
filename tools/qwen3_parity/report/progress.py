"""What a command is doing, on standard error: a line that changes in a terminal, a line now and then in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from qwen3_golden.errors import printable
from qwen3_parity.report.terminal import console

_SECONDS = 2.0
"""From when on, and how often, a file is told."""


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """`update(text)` says what is being done, first of all `text`; what takes under two seconds is not worth a line."""
    if sys.stderr.isatty():
        with console(stderr=True).status(text) as status:
            yield status.update
        return
    told = monotonic()

    def update(text: str) -> None:
        nonlocal told
        if monotonic() - told >= _SECONDS:
            told = monotonic()
            print(printable(text), file=sys.stderr, flush=True)

    yield update
