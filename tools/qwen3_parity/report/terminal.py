"""Where tables go: a terminal as wide as it is, a pipe or a log as wide as the names of taps need."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from qwen3_golden.errors import printable

_WIDTH_OF_A_LOG = 160
_WIDEST = 1000
_SENTENCE = 50
"""What is longer than this in a table is a sentence, which wraps; names and numbers stay whole."""


class PlainConsole(Console):
    """A console for names out of files: no markup in them, and no control character reaches the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, control characters in texts escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """As `refusals` has it, for every command alike."""
        raise  # rich calls it where the error is caught


def console(*, stderr: bool = False, least: int | None = None) -> Console:
    """Standard output for tables, as wide as the `least`, where it is given; or standard error for progress."""
    width = None if stderr or sys.stdout.isatty() else _WIDTH_OF_A_LOG
    return PlainConsole(stderr=stderr, width=least or width, soft_wrap=False, markup=False, emoji=False)


def show(parts: Iterable[RenderableType]) -> None:
    """Print what people read: a table as wide as its names and numbers need, a line with a command in one piece."""
    screen = console()
    for part in parts:
        if isinstance(part, str | Text):
            screen.print(part, soft_wrap=True, highlight=False)
        else:
            _show(screen, part)


def _show(screen: Console, part: RenderableType) -> None:
    """A table or a group of what people read; sentences in it wrap between words."""
    if isinstance(part, Group):
        for inner in part.renderables:
            _show(screen, inner)
    elif isinstance(part, Table):
        _keep_whole(screen, part)
        needed = Measurement.get(screen, screen.options.update_width(_WIDEST), part).minimum
        wide = console(least=needed) if needed > screen.width else screen
        wide.print(part, crop=False, highlight=False)
    elif isinstance(part, Text) and "qwen3-parity " in part.plain:
        for line in part.split("\n", allow_blank=True):
            screen.print(line, soft_wrap="qwen3-parity " in line.plain, highlight=False)
    else:
        screen.print(part, highlight=False)


def _keep_whole(screen: Console, table: Table) -> None:
    """Give each column the width of its names or numbers, and of its head's longest word."""
    for column in table.columns:
        head, *lengths = screen.measure(column.header), *(screen.measure(cell).maximum for cell in column.cells)
        if all(length <= _SENTENCE for length in lengths):
            column.min_width = max([head.minimum, *lengths])
            column.no_wrap = head.maximum <= column.min_width  # else rich takes the room from the longest names
