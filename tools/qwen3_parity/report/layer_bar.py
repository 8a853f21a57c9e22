"""What a long run shows while it runs: the stage in words, and a bar of the layers that are done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from qwen3_parity.report.terminal import console


class LayerBar:
    """The bar; `stage` and `layers` are what a run calls."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None)

    def stage(self, words: str) -> None:
        """Say what is being done."""
        self._bar.update(self._task, description=words)

    def layers(self, done: int, total: int) -> None:
        """Say how many layers are done, over all passes, and how many there are."""
        self._bar.update(self._task, completed=done, total=total)


@contextmanager
def layer_bar() -> Iterator[LayerBar]:
    """A bar on standard error, gone when the run is; nothing is drawn where that is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("layers"))
    screen = console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=screen, transient=True, disable=not screen.is_terminal) as bar:
        yield LayerBar(bar)
