"""Lines of a function that an answer may name: those that are mistaken, and those that make or read their values."""

from __future__ import annotations

import ast
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
    lines = here.source.splitlines()
    plain = " ".join(said.split())
    texts = {" ".join(lines[number - 1].split()) for number in numbers}
    return any(f"{here.path.name}:{number} " in f"{plain} ".replace(",", " ") for number in numbers) or any(
        len(one) >= _LEAST and one in plain for one in texts
    )


def _mistaken(here: Text) -> set[int]:
    """The lines of the whole statements: an op that runs over several stands at the first."""
    return {number for one in _statements(here.function) if _lines(one) & {*here.lines} for number in _lines(one)}


def _around(here: Text) -> set[int]:
    """Of each value read, the last statement before that makes it; of each value made, every one up to the next."""
    every = list(_statements(here.function))
    wrong = [at for at, one in enumerate(every) if _lines(one) & {*here.lines}]
    numbers = _mistaken(here)
    for at in wrong:
        for name in _names(every[at], ast.Load):
            makers = [one for one in every[:at] if name in _names(one, ast.Store)]
            numbers |= {number for one in makers[-1:] for number in _lines(one)}
        for name in _names(every[at], ast.Store):
            for one in every[at + 1 :]:
                numbers |= _lines(one) if name in _names(one, ast.Load) else set()
                if name in _names(one, ast.Store):
                    break
    return numbers


def _statements(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Statements in their order; of an if, a loop or a with, its head alone."""
    yield from _within(function.body)


def _within(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for one in body:
        parts = [getattr(one, name) for name in ("body", "orelse", "finalbody") if getattr(one, name, None)]
        if not parts:
            yield one
            continue
        heads = [getattr(one, name) for name in ("test", "target", "iter") if hasattr(one, name)]
        yield from [*heads, *(item.context_expr for item in getattr(one, "items", []))]
        for part in parts:
            yield from _within(part)


def _lines(one: ast.AST) -> set[int]:
    return set(range(one.lineno, one.end_lineno + 1))  # type: ignore[attr-defined]


def _names(one: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {node.id for node in ast.walk(one) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}
