"""Every mechanical mutant of a source file, in the order of the text, under names that outlive a change of lines."""

from __future__ import annotations

import ast
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detection.mechanical.operators import OPERATORS

FILES = (
    "attention",
    "masks",
    "merged_attention",
    "rope",
    "norm",
    "mlp",
    "caches",
    "inputs",
    "backends",
    "modeling_qwen3_encoder",
    "decoder_layer",
    "modeling_qwen3_decoder",
    "modeling_qwen3_encdec",
    "generation",
    "configuration_qwen3_encdec",
    "qwen3_source",
    "weights.qwen3_checkpoint",
    "pretrained",
    "weights.mapping",
    "rope_scaling",
    "graph_capture",
)
"""The modules of the implementation that compute numbers, or set those that others compute with."""
_IGNORED = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr, ast.arg)
_NOT_NUMBERS = re.compile(
    # what refuses, describes or keeps books
    r"check_\w+|_check_\w+|extra_repr|_missing|_source_name|_collect|_read_config|\w+_problems|_same_bits"
)
_TYPES_FIRST = {"cast": 0, "isinstance": 1}
"""Calls of which one argument is a type."""
_LONGEST, _HEAD = 90, 40


@dataclass(frozen=True)
class Mutant:
    """One change of one file. `lines` are the first and last line of the statement it is in (the header of a block)."""

    module: str
    function: str
    operator: str
    line: int
    column: int
    before: str
    after: str
    occurrence: int
    lines: tuple[int, int]
    text: str

    @property
    def id(self) -> str:
        """Where it is now and what it does: `file:line:column:operator`, and the new text."""
        return f"{self.module}.py:{self.line}:{self.column}:{self.operator}: {self.before} → {self.after}"

    @property
    def key(self) -> str:
        """What it is, whatever line it is on."""
        again = f" ({self.occurrence})" if self.occurrence > 1 else ""
        return f"{self.module} {self.function} {self.operator}: {self.before} → {self.after}{again}"


@dataclass(frozen=True)
class _Spot:
    """A node and how to put another in its place."""

    node: ast.AST
    owner: ast.AST
    field: str
    index: int | None
    function: str
    lines: tuple[int, int]
    bound: frozenset[str]

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.owner, self.field, node)
        else:
            getattr(self.owner, self.field)[self.index] = node


def mutants(path: Path, module: str = "") -> list[Mutant]:
    """The mutants of a file; types, messages, docstrings, logging and guards that only raise are left alone.

    `module` is its dotted name below the package; the file's name when left out.
    """
    module = module or path.stem
    tree = ast.parse(path.read_text(encoding="utf-8"))
    written: list[Mutant] = []
    counts: Counter[tuple[str, ...]] = Counter()
    parts = [ast.unparse(part) for part in tree.body]
    part_of = {id(node): number for number, part in enumerate(tree.body) for node in ast.walk(part)}
    texts, top = {"\n".join(parts)}, _bound(tree)
    for site in list(_walk(tree, "", (1, 1), frozenset())):
        for operator, change in OPERATORS.items():
            if operator == "statement" and not _may_go(site):
                continue
            for new in change(site.node):
                if isinstance(new, ast.Name) and operator == "name" and new.id not in site.bound | top:
                    continue
                before, after = _shown(_flat(site.node), "nothing" if isinstance(new, ast.Pass) else _flat(new))
                number = part_of[id(site.node)]
                site.put(new)
                changed = ast.unparse(ast.fix_missing_locations(tree.body[number]))
                site.put(site.node)
                text = "\n".join((*parts[:number], changed, *parts[number + 1 :]))
                if text in texts:
                    continue
                texts.add(text)
                name = (site.function, operator, before, after)
                counts[name] += 1
                line, column = getattr(site.node, "lineno", 0), getattr(site.node, "col_offset", 0)
                written.append(Mutant(module, *name[:2], line, column, *name[2:], counts[name], site.lines, text))
    return written


def _flat(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _shown(before: str, after: str) -> tuple[str, str]:
    """Both texts, long ones cut down to how they begin and where they differ."""
    if max(len(before), len(after)) <= _LONGEST:
        return before, after
    same = _alike(before, after)
    start = max(before.rfind(" ", 0, same), before.rfind("(", 0, same)) + 1
    tail = min(_alike(before[::-1], after[::-1]), len(before) - same, len(after) - same)
    return _part(before, start, len(before) - tail), _part(after, start, len(after) - tail)


def _alike(left: str, right: str) -> int:
    """How many characters two texts begin with in common."""
    return next((place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(left))


def _part(text: str, start: int, stop: int) -> str:
    if start < _HEAD:
        start = 0
    middle = text[start:stop].strip(" ,")
    cut = middle if len(middle) <= _LONGEST else f"{middle[:_LONGEST]}… {zlib.crc32(middle.encode()):08x}"
    return f"{text[:_HEAD]}… {cut}".strip() if start else cut or text[:_LONGEST]


def _may_go(site: _Spot) -> bool:
    """Whether leaving the statement out leaves every name bound, so that it can change a number and not only raise."""
    if isinstance(site.node, ast.Assign):
        return all(_rebinds(target, site.bound) for target in site.node.targets)
    if isinstance(site.node, ast.AnnAssign):
        return _rebinds(site.node.target, site.bound)
    return True


def _rebinds(target: ast.expr, bound: frozenset[str]) -> bool:
    if isinstance(target, ast.Tuple):
        return all(_rebinds(element, bound) for element in target.elts)
    return ast.unparse(target) in bound or isinstance(target, ast.Subscript)


def _bound(node: ast.AST) -> frozenset[str]:
    """The names that a node binds, in whatever scope of it; of a module, those of its top level."""
    inside = ast.walk(node) if not isinstance(node, ast.Module) else iter(node.body)
    names = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if isinstance(node, ast.Module):
        names |= {alias.asname or alias.name for n in node.body if isinstance(n, ast.ImportFrom) for alias in n.names}
        names |= {n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return frozenset(names)


def _ignored(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        text = ast.unparse(node)
        checks = isinstance(node.value, ast.Call) and _NOT_NUMBERS.fullmatch(
            ast.unparse(node.value.func).split(".")[-1]
        )
        return bool(checks) or isinstance(node.value, ast.Constant) or text.startswith(("logger.", "super().__init__"))
    if isinstance(node, ast.FunctionDef):
        return _NOT_NUMBERS.fullmatch(node.name) is not None
    if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise):
        return True  # a guard: it chooses between a result and an error
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "tuple":
        return True  # the name of a type
    return isinstance(node, _IGNORED) or (
        isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "logger")
    )


def _children(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """The fields of a node that hold code which computes."""
    skipped = {"annotation", "returns", "decorator_list", "bases", "type_params", "handlers"}
    if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
        skipped |= {"test", "body"}
    if isinstance(node, ast.FunctionDef) and node.name == "__init__":
        skipped |= {"args"}  # every default is overridden by the stack that builds the module
    if isinstance(node, ast.ClassDef):  # fields and flags: a config is always given all of them
        yield "body", [statement if isinstance(statement, ast.FunctionDef) else None for statement in node.body]
        return
    yield from ((field, value) for field, value in ast.iter_fields(node) if field not in skipped)


def _walk(node: ast.AST, function: str, lines: tuple[int, int], bound: frozenset[str]) -> Iterator[_Spot]:
    """The nodes below a node in the order of the text."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}" if function else node.name
    if isinstance(node, ast.FunctionDef):
        bound = frozenset(argument.arg for argument in (*node.args.args, *node.args.kwonlyargs))
    typed = _TYPES_FIRST.get(node.func.id) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
    for field, value in _children(node):
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or _ignored(child) or (field == "args" and index == typed):
                continue
            here = _extent(child) if isinstance(child, ast.stmt) else lines
            site = _Spot(child, node, field, index if isinstance(value, list) else None, function, here, bound)
            if not (isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in _TYPES_FIRST):
                yield site
            yield from _walk(child, function, here, bound)
            bound |= _bound(child)


def _extent(node: ast.stmt) -> tuple[int, int]:
    body = getattr(node, "body", None)
    end = body[0].lineno - 1 if body else (node.end_lineno or node.lineno)
    return node.lineno, max(end, node.lineno)
