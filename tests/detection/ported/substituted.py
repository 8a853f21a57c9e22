"""A function of a module as another text has it, wherever somebody holds it: its code is exchanged."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

from detection.ported.row import Row
from qwen3_golden import ParityError


class Text(NamedTuple):
    """A module's file with its source, the function in it, and the lines, counted from 1, that a row writes anew."""

    path: Path
    source: str
    function: ast.FunctionDef
    first: int
    last: int

    @property
    def lines(self) -> range:
        """The numbers of the lines that a row writes anew."""
        return range(self.first, self.last + 1)


def text(row: Row) -> Text:
    """Where a row's old text stands; raises `ParityError` where it stands nowhere, or twice."""
    path, source, tree = _source(row.module)
    function = _function(tree, row.function)
    if function is not None:
        lines = source.splitlines(keepends=True)
        before = "".join(lines[: function.lineno - 1])
        body = "".join(lines[function.lineno - 1 : function.end_lineno])
        if body.count(row.old) == 1:
            first = (before + body.partition(row.old)[0]).count("\n") + 1
            return Text(path, source, function, first, first + row.old.count("\n"))
    raise ParityError(
        row.name,
        "the text that it changes must stand once in its function",
        expected=f"{row.function} of {path.name} with {row.old}",
        got="no such function" if function is None else f"{body.count(row.old)} times",
        next_step="write the row for the installed transformers",
    )


@contextmanager
def substituted(row: Row) -> Iterator[None]:
    """The module with the row's new text, compiled from its changed source; raises `ParityError` where it cannot be."""
    here = text(row)
    lines = here.source.splitlines(keepends=True)
    start, end = here.function.lineno - 1, here.function.end_lineno
    body = "".join(lines[start:end]).replace(row.old, row.new)
    changed = "".join(lines[:start]) + body + "".join(lines[end:])
    code = _code(compile(changed, str(here.path), "exec", dont_inherit=True), row.function)
    with ExitStack() as stack:
        for function in _holders(row, here.path):
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


def _holders(row: Row, path: Path) -> Iterator[FunctionType]:
    """The function itself, within whatever decorates it: what a wrapper wraps or closes over is looked through.

    Raises `ParityError` where it is not there: the row would change nothing.
    """
    first, *rest = row.function.split(".")
    held = reduce(lambda part, name: vars(part)[name], rest, vars(import_module(row.module))[first])
    left, before, count = [held], set[int](), 0
    while left:
        holder = left.pop()
        if id(holder) in before or isinstance(holder, type | ModuleType):
            continue
        before.add(id(holder))
        code = getattr(holder, "__code__", None)
        if code is not None and (code.co_qualname, code.co_filename) == (row.function, str(path)):
            count += 1
            yield holder
            continue
        left += [cell.cell_contents for cell in getattr(holder, "__closure__", None) or ()]
        left += [getattr(holder, name) for name in ("__func__", "__wrapped__") if hasattr(holder, name)]
        left += getattr(holder, "__dict__", {}).values()
    if not count:
        raise ParityError(
            row.name,
            "nobody holds the function that it changes",
            expected=f"{row.function} of {row.module}, decorated or not",
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
