"""Where tables go: a terminal as wide as it is, a pipe or a log as wide as the names of taps need."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from qwen3_golden.errors import printable

_WIDTH_OF_A_LOG = 160


class PlainConsole(Console):
    """A console for names out of files: no markup in them, and no control character reaches the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, control characters in texts escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """As `refusals` has it, for every command alike."""
        raise  # rich calls it where the error is caught


def console(*, stderr: bool = False) -> Console:
    """Standard output for tables, which are never cut where nobody sees an edge; or standard error for progress."""
    width = None if stderr or sys.stdout.isatty() else _WIDTH_OF_A_LOG
    return PlainConsole(stderr=stderr, width=width, soft_wrap=False, markup=False, emoji=False)
