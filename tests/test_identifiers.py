"""Identifiers are the field's terms: a tap is a tap, a verdict a verdict, a place a place."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTHING = {
    *("apart", "found", "given", "kept", "made", "one", "other", "own", "right"),
    *("room", "seen", "some", "spot", "told", "wanted", "what"),
}
"""Words that name nothing, or anything."""
ROOMS = sorted(
    path.relative_to(ROOT).as_posix()
    for package in ("golden/qwen3_golden", "reference/*", "impl/qwen3_encdec", "tools/qwen3_parity", "tests")
    for top in ROOT.glob(package)
    for path in (top, *top.iterdir())
    if path.is_dir() and path.name != "__pycache__" and any(path.glob("*.py"))
)


def bound(node: ast.AST) -> str | None:
    """The name that a node binds: a variable, field, argument, function, class, or a name of an import."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
            return name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.alias(asname=str(name)):
            return name
    return None


def counted(source: str) -> Counter[str]:
    """The names that name nothing; `self` has an `other`, and where a `left` is bound, `right` is its opposite."""
    nodes = list(ast.walk(ast.parse(source)))
    every = Counter(filter(None, map(bound, nodes)))
    names = Counter({name: count for name, count in every.items() if name.lstrip("_") in NOTHING})
    for node in nodes:
        if isinstance(node, ast.arguments) and [arg.arg for arg in node.args[:2]] == ["self", "other"]:
            names["other"] -= 1
    if "left" in every:
        del names["right"]
    return +names


def test_a_name_is_counted_wherever_it_is_bound() -> None:
    source = (
        "def found(one, tap):\n    import what as given\n    _own = [some for some in one]\n    print(right, tap)\n"
    )
    assert counted(source) == Counter(["found", "one", "given", "_own", "some"])
    assert not counted("class Size:\n    def __add__(self, other):\n        left, right = self, other\n")


@pytest.mark.parametrize("folder", ROOMS)
def test_a_room_binds_no_name_that_names_nothing(folder: str) -> None:
    nested = [ROOT / path for path in ROOMS if path.startswith(f"{folder}/")]
    files = [path for path in (ROOT / folder).rglob("*.py") if not any(inner in path.parents for inner in nested)]
    names = sum((counted(path.read_text()) for path in files), Counter[str]())
    assert not names
