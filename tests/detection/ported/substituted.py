"""A function of a module as another text has it, wherever somebody holds it: its code is exchanged."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

from qwen3_golden import ParityError


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is written otherwise: `old` stands once in `function`, by its qualified name, of `module`, `new` in its
    place.
    """

    name: str
    module: str
    function: str
    old: str
    new: str


class Text(NamedTuple):
    """A module's file with its source, the function in it, and the lines, counted from 1, that are written anew."""

    path: Path
    source: str
    function: ast.FunctionDef
    first: int
    last: int

    @property
    def lines(self) -> range:
        """The numbers of the lines that are written anew."""
        return range(self.first, self.last + 1)


def text(change: Change) -> Text:
    """Where a change's old text stands; raises `ParityError` where it stands nowhere, or twice."""
    path, source, tree = _source(change.module)
    function = _function(tree, change.function)
    if function is not None:
        lines = source.splitlines(keepends=True)
        before = "".join(lines[: function.lineno - 1])
        body = "".join(lines[function.lineno - 1 : function.end_lineno])
        if body.count(change.old) == 1:
            first = (before + body.partition(change.old)[0]).count("\n") + 1
            return Text(path, source, function, first, first + change.old.count("\n"))
    raise ParityError(
        change.name,
        "the text that it changes must stand once in its function",
        expected=f"{change.function} of {path.name} with {change.old}",
        got="no such function" if function is None else f"{body.count(change.old)} times",
        next_step="write the row for the installed transformers",
    )


@contextmanager
def substituted(change: Change) -> Iterator[None]:
    """The module with the new text, compiled from its changed source; raises `ParityError` where it cannot be."""
    here = text(change)
    lines = here.source.splitlines(keepends=True)
    start, end = here.function.lineno - 1, here.function.end_lineno
    body = "".join(lines[start:end]).replace(change.old, change.new)
    changed = "".join(lines[:start]) + body + "".join(lines[end:])
    code = _code(compile(changed, str(here.path), "exec", dont_inherit=True), change.function)
    with ExitStack() as stack:
        for function in _holders(change, here.path):
            stack.enter_context(_coded(function, code))
        yield


@cache
def _source(module: str) -> tuple[Path, str, ast.Module]:
    path = Path(str(import_module(module).__file__))
    source = path.read_text(encoding="utf-8")
    return path, source, ast.parse(source)


def _function(tree: ast.AST, name: str) -> ast.FunctionDef | None:
    """A function by its qualified name."""
    first, _, rest = name.partition(".")
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == first:
            return _function(node, rest) if rest else node if isinstance(node, ast.FunctionDef) else None
    return None


def _code(module: CodeType, name: str) -> CodeType:
    inner = [part for part in module.co_consts if isinstance(part, CodeType)]
    return next((part for part in inner if part.co_qualname == name), None) or next(
        _code(part, name) for part in inner if name.startswith(part.co_qualname + ".")
    )


def _holders(change: Change, path: Path) -> Iterator[FunctionType]:
    """The function itself, within whatever decorates it: what a wrapper wraps or closes over is looked through.

    Raises `ParityError` where it is not there: the row would change nothing.
    """
    first, *rest = change.function.split(".")
    held = reduce(lambda part, name: vars(part)[name], rest, vars(import_module(change.module))[first])
    left, before, count = [held], set[int](), 0
    while left:
        holder = left.pop()
        if id(holder) in before or isinstance(holder, type | ModuleType):
            continue
        before.add(id(holder))
        code = getattr(holder, "__code__", None)
        if code is not None and (code.co_qualname, code.co_filename) == (change.function, str(path)):
            count += 1
            yield holder
            continue
        left += [cell.cell_contents for cell in getattr(holder, "__closure__", None) or ()]
        left += [getattr(holder, name) for name in ("__func__", "__wrapped__") if hasattr(holder, name)]
        left += getattr(holder, "__dict__", {}).values()
    if not count:
        raise ParityError(
            change.name,
            "nobody holds the function that it changes",
            expected=f"{change.function} of {change.module}, decorated or not",
            got=type(held).__name__,
            next_step="see what decorates it",
        )


@contextmanager
def _coded(function: FunctionType, code: CodeType) -> Iterator[None]:
    before, function.__code__ = function.__code__, code
    try:
        yield
    finally:
        function.__code__ = before
