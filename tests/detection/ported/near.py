"""Lines of a function that an answer may name: those that are mistaken, and those that make or read their values."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from detection.ported.substituted import Text

_LEAST = 12
"""A shorter line stands in too many functions to say which is meant."""


def is_exact(here: Text, said: str) -> bool:
    """Whether a mistaken line is named, by its number or by its text."""
    return _is_named(here, _mistaken(here), said)


def is_near(here: Text, said: str, also: Sequence[str] = ()) -> bool:
    """Whether a mistaken line is named, or one that makes a value that it reads, or reads one that it makes.

    `also`: the text of other lines that may be named.
    """
    lines = here.source.splitlines()
    more = {number for number, line in enumerate(lines, 1) if any(part in line for part in also)}
    return _is_named(here, _around(here) | more, said)


def _is_named(here: Text, numbers: Collection[int], said: str) -> bool:
    """Whether one of the lines is named by its number, or else, where no number of the file is said, by its text."""
    named = re.findall(rf"{re.escape(here.path.name)}:(\d+)", said)
    if named:
        return bool({*map(int, named)} & {*numbers})
    lines = here.source.splitlines()
    texts = {" ".join(lines[number - 1].split()) for number in numbers}
    return any(len(line) >= _LEAST and line in " ".join(said.split()) for line in texts)


def _mistaken(here: Text) -> set[int]:
    """The lines of the whole statements: an op that runs over several stands at the first."""
    return {number for part in _statements(here.function) if _lines(part) & {*here.lines} for number in _lines(part)}


def _around(here: Text) -> set[int]:
    """Of each value read, the last statement before that makes it; of each value made, every one up to the next."""
    every = list(_statements(here.function))
    wrong = [at for at, part in enumerate(every) if _lines(part) & {*here.lines}]
    numbers = _mistaken(here)
    for at in wrong:
        for name in _names(every[at], ast.Load):
            makers = [part for part in every[:at] if name in _names(part, ast.Store)]
            numbers |= {number for part in makers[-1:] for number in _lines(part)}
        for name in _names(every[at], ast.Store):
            for part in every[at + 1 :]:
                numbers |= _lines(part) if name in _names(part, ast.Load) else set()
                if name in _names(part, ast.Store):
                    break
    return numbers


def _statements(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Statements in their order; of an if, a loop or a with, its head alone."""
    yield from _within(function.body)


def _within(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        parts = [getattr(statement, name) for name in ("body", "orelse", "finalbody") if getattr(statement, name, None)]
        if not parts:
            yield statement
            continue
        heads = [getattr(statement, name) for name in ("test", "target", "iter") if hasattr(statement, name)]
        yield from [*heads, *(item.context_expr for item in getattr(statement, "items", []))]
        for part in parts:
            yield from _within(part)


def _lines(part: ast.AST) -> set[int]:
    return set(range(part.lineno, part.end_lineno + 1))  # type: ignore[attr-defined]


def _names(part: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {node.id for node in ast.walk(part) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}
