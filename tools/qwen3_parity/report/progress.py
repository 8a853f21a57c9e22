"""What a command is doing, on standard error: a bar with its rate in a terminal, a line now and then in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic as _now
from typing import Any

from rich import progress as bars

from qwen3_golden.errors import printable
from qwen3_parity.report.terminal import console

_SECONDS = 2.0
"""From when on, and how often, a file gets a line."""


class Progress:
    """What is being done, in words, and how much of it is done; each change is handed to `show`."""

    def __init__(self, text: str, unit: str, show: Callable[[Progress], object]) -> None:
        self.text, self.done, self.total = text, 0, None if not unit else 0
        self._unit, self._show = unit, show
        self._since, self._first = _now(), 0

    def __call__(self, text: str) -> None:
        """Say what is being done now."""
        self.text = text
        self._show(self)

    def count(self, done: int, total: int) -> None:
        """Say how much is done of how much; a smaller number than before, or another total, begins anew."""
        if done < self.done or total != self.total:
            self._since, self._first = _now(), done
        self.done, self.total = done, total
        self._show(self)

    @property
    def counted(self) -> str:
        """As "12 of 105 cases, 8.1 a second"; empty before anything was counted."""
        if not self.total:
            return ""
        seconds, done = _now() - self._since, self.done - self._first
        rate = f", {done / seconds:.3g} a second" if done and seconds > 0 else ""
        return f"{self.done:,} of {self.total:,} {self._unit}{rate}"

    def __str__(self) -> str:
        text = self.text.replace("{layer}", "*")  # as reports say places
        return printable(": ".join(part for part in (text, self.counted) if part))


@contextmanager
def progress(text: str, unit: str = "", *, silent: bool = False) -> Iterator[Progress]:
    """What the work calls: with what is being done, first of all `text`, and `count` with how many `unit` are done.

    A terminal gets a bar, gone when the work is done, and a file a line every two seconds; what takes less is not worth
    one. `silent`: nothing is shown.
    """
    screen = console(stderr=True)
    if silent or not screen.is_terminal:
        yield Progress(text, unit, (lambda _: None) if silent else _lines())
        return
    columns = (
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(24),
        bars.TextColumn("{task.fields[counted]}", markup=False),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(printable(text), total=None, counted="")

        def show(now: Progress) -> None:
            known: dict[str, Any] = {"total": now.total, "completed": now.done} if now.total else {}
            bar.update(task, description=printable(now.text), counted=now.counted, **known)

        yield Progress(text, unit, show)


def _lines() -> Callable[[Progress], None]:
    last = _now()

    def show(now: Progress) -> None:
        nonlocal last
        if _now() - last >= _SECONDS:
            last = _now()
            console(stderr=True).print(str(now), soft_wrap=True, highlight=False)

    return show
