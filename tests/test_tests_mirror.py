"""Tests stand where their source stands, tests/<package>/<room>/test_*.py, and each module of the product is named by one."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCES = {
    "golden": "golden/qwen3_golden",
    "spec": "reference/qwen3_spec",
    "reference": "reference/qwen3_reference",
    "impl": "impl/qwen3_encdec",
    "tools": "tools/qwen3_parity",
    "instruments": "tests/detection",
}


@pytest.mark.parametrize("folder", SOURCES)
def test_every_folder_of_tests_is_a_room_of_the_package(folder: str) -> None:
    source = TESTS.parent / SOURCES[folder]
    rooms = {path.parent.relative_to(TESTS / folder) for path in (TESTS / folder).rglob("test_*.py")}
    assert rooms
    assert not [str(room) for room in rooms if not (source / room).is_dir() and not (source / f"{room}.py").is_file()]


def files() -> list[Path]:
    return [path for path in sorted(TESTS.rglob("*.py")) if TESTS / "detection" not in path.parents]


def test_what_tests_share_has_a_name_of_its_own() -> None:
    """Their folders are all on the path: of two modules of one name the second is never read."""
    shared = (path.stem for path in files() if path.name != "conftest.py" and not path.stem.startswith("test_"))
    names = Counter(shared)
    assert names and names.most_common(1)[0][1] == 1, names.most_common(3)


@cache
def modules() -> dict[str, Path]:
    """The product's modules by their dotted names."""
    roots = [TESTS.parent / source for folder, source in SOURCES.items() if folder != "instruments"]
    paths = [path for root in roots for path in root.rglob("*.py") if path.stem not in ("__init__", "golden_pb2")]
    dotted = (next(path.relative_to(root.parent) for root in roots if root in path.parents) for path in paths)
    return {".".join(name.with_suffix("").parts): path for name, path in zip(dotted, paths, strict=True)}


DOTTED = re.compile(r"\w+(?:\.\w+)+")


def said(text: str) -> Iterator[str]:
    """The dotted names in a text, and every four words in a row."""
    yield from DOTTED.findall(text)
    words = re.findall(r"[\w'-]+", text)
    yield from (" ".join(words[i : i + 4]) for i in range(len(words) - 3))


def literals(tree: ast.AST) -> Iterator[str]:
    yield from (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def made_by(tree: ast.Module) -> set[str]:
    """What a module can be known by: the names that it defines, and what its literals say."""
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    bound = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    names |= {target.id for target in bound if isinstance(target, ast.Name)}
    return names | {mark for text in literals(tree) for mark in said(text)}


def used_by(tree: ast.Module) -> Iterator[str]:
    """What a test uses or says: modules, names, attributes, and what its literals and docstrings say."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                yield from (module, *(f"{module}.{one.name}" for one in names), *(one.name for one in names))
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.Name(id=name):
                yield name
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                yield from (attribute, f"{name}.{attribute}")
            case ast.Attribute(attr=attribute):
                yield attribute
    for text in literals(tree):
        yield from said(text)


def unnamed() -> set[str]:
    """The modules that no test names.

    A test names a module where it imports it or mentions it as `room.module`, is called like it in its room, or has a word
    that the module alone has: something that it defines, the name of a mistake, a message. A verb is named by its name.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files()}
    used = {mark for tree in trees.values() for mark in used_by(tree)}
    verbs = {word for tree in trees.values() for text in literals(tree) for word in text.split()}
    mirrored = {path.with_name(path.name.removeprefix("test_")).relative_to(TESTS).as_posix() for path in trees}
    made = {name: made_by(ast.parse(path.read_text(encoding="utf-8"))) for name, path in modules().items()}
    owners = Counter(mark for marks in made.values() for mark in marks)
    left = set()
    for name, path in modules().items():
        package, _, rest = name.partition(".")
        folder = next(folder for folder, source in SOURCES.items() if source.endswith(package))
        *_, room, module = name.split(".")
        own = {mark for mark in made[name] if owners[mark] == 1}
        if room == "commands":
            is_named = module.strip("_").replace("_", "-") in verbs
        else:
            is_named = {name, f"{room}.{module}"} & used or f"{folder}/{rest.replace('.', '/')}.py" in mirrored
        if not is_named and not own & used:
            left.add(name)
    return left
