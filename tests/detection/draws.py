"""What the draws of bugs share: rows by name, answers in words, a process that may die, results in files and tables.

None of it loads a framework: a command says its help at once.
"""

from __future__ import annotations

import json
import multiprocessing
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeVar

from qwen3_golden import ParityError
from qwen3_golden.whole import write_whole

LEVELS = ("all", "modules", "layer", "logits")
"""The levels of recording at which bugs of our implementation are judged, the one with most taps first."""

Alternative = tuple[re.Pattern[str], ...]
"""One way to say a mechanism: every expression must match."""

_ENDS = _LATE, _DIED = "time limit", "the process died"


class Named(Protocol):
    """A row of a draw."""

    @property
    def name(self) -> str:
        """Its name, or id."""


class Levelled(Protocol):
    """What became of a row at a level."""

    @property
    def level(self) -> str:
        """The level's name."""


Item = TypeVar("Item")
Result = TypeVar("Result")
Row = TypeVar("Row", bound=Named)
AtLevel = TypeVar("AtLevel", bound=Levelled)


def chosen(rows: Sequence[Row], globs: Sequence[str], rule: str, *, expected: str, next_step: str) -> list[Row]:
    """The rows whose names match one of the globs, all without one; raises `ParityError` when there are none."""
    selected = [row for row in rows if not globs or any(fnmatchcase(row.name, glob) for glob in globs)]
    if not selected:
        where = f"--only {' '.join(globs)}"
        raise ParityError(where, rule, expected=expected, got="no match", next_step=next_step)
    return selected


def alternative(text: str, flags: re.RegexFlag = re.IGNORECASE) -> Alternative:
    """Regular expressions with ` & ` between them; raises `re.error` for what is none."""
    return tuple(re.compile(part, flags) for part in text.split(" & "))


_LEAVES_OUT = re.compile(r"\bleaves (.{0,80}?) ?\bout\b")
"""The same in other words: "leaves the mask out", "leaves out the mask", "the mask left out"."""


def says(alternatives: Iterable[Alternative], said: str) -> bool:
    """Whether every expression of one of the alternatives matches an answer, its name and its text."""
    said = said + " " + _LEAVES_OUT.sub(r"\1 left out", said)
    return any(all(part.search(said) for part in parts) for parts in alternatives)


def run_each(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    failed: Callable[[Item, str], Result],
    limit: float,
    method: str = "fork",
) -> Iterator[Result]:
    """Each item's result in their order, from a process that takes up item after item.

    `failed(item, why)` stands for what an item gives that raises, or at which the process dies or takes more than
    `limit` seconds; after these two a new process goes on. By the method "spawn" work, items and results are pickled,
    by "fork" results alone, and what is imported and read stays warm.
    """
    context: Any = multiprocessing.get_context(method)
    left = deque(items)
    while left:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(work, tuple(left), sender))
        process.start()
        sender.close()
        try:
            failure = ""
            while left and failure not in _ENDS:
                item = left.popleft()
                failure, result = _received(receiver, limit)
                yield failed(item, failure) if failure else result
        finally:
            process.kill()
            process.join()
            receiver.close()


def _received(receiver: Connection, limit: float) -> tuple[str, Any]:
    try:
        answer: tuple[str, Any] = receiver.recv() if receiver.poll(limit) else (_LATE, None)
        return answer
    except (EOFError, OSError):  # nothing came, or a part
        return _DIED, None


def _child(work: Callable[[Item], Result], items: Sequence[Item], sender: Connection) -> None:
    for item in items:
        try:
            sender.send(("", work(item)))
        except Exception as error:  # whatever it is, the other rows go on
            sender.send((f"{type(error).__name__}: {error}", None))


def write_results(path: Path, results: Iterable[Any]) -> None:
    """Results, each a dataclass of plain values, as JSON."""
    write_whole(path, (json.dumps([asdict(result) for result in results], indent=1) + "\n").encode())


def read_results(path: Path | None, build: Callable[[dict[str, Any]], Result], rows: str) -> list[Result]:
    """What `write_results` wrote, each built from its values; nothing without a path or where no file is.

    Raises `ParityError` for anything else, which then holds no `rows`.
    """
    if path is None or not path.exists():
        return []
    try:
        return [build(values) for values in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, KeyError, TypeError) as error:
        raise ParityError(
            path,
            f"these are no {rows}",
            expected="a file that --json wrote, or none",
            got=repr(error),
            next_step="give another file",
        ) from None


def line(head: str, states: Mapping[str, bool], notes: Mapping[str, str], said: Iterable[tuple[bool, str]]) -> str:
    """What became of a row at a level, notes where there is something to note; below it answers, + for a right one."""
    parts = [name if state else f"not {name}" for name, state in states.items()]
    parts += [f"{name}: {text}" for name, text in notes.items() if text]
    return f"{head}: {', '.join(parts)}" + "".join(
        f"\n    {'+' if is_right else '-'} {text}" for is_right, text in said
    )


def by_level(results: Sequence[AtLevel], levels: Iterable[str] = LEVELS) -> Iterator[tuple[str, list[AtLevel]]]:
    """The results of each level that has any, in the levels' order."""
    for level in levels:
        at_level = [result for result in results if result.level == level]
        if at_level:
            yield level, at_level


def times(seconds: Sequence[float]) -> tuple[str, str]:
    """The median and the worst, in words; 0.0 of none."""
    return f"{median(seconds or [0.0]):.1f}", f"{max(seconds, default=0.0):.1f}"
