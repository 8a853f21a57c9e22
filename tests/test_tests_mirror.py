"""Tests stand where their source stands, tests/<package>/<room>/test_*.py, and name each module of the product."""

from __future__ import annotations

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
    assert not [str(name) for name in rooms if not (source / name).is_dir() and not (source / f"{name}.py").is_file()]


@cache
def files() -> dict[Path, str]:
    """The tests and what they share, as text: to parse all of it takes ten seconds."""
    paths = (path for path in sorted(TESTS.rglob("*.py")) if TESTS / "detection" not in path.parents)
    return {path: path.read_text(encoding="utf-8") for path in paths}


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
IMPORTED = re.compile(r"^\s*from ([\w.]+) import \(?([\w\s,]+)", re.M)
LITERAL = re.compile(r'"""(.*?)"""|"([^"\n]*)"', re.S)
DEFINED = re.compile(r"^(?:def |class |)([A-Za-z_]\w*)(?:\(|: | = )", re.M)


def said(text: str) -> Iterator[str]:
    """The dotted names in a text, and every four words in a row."""
    yield from DOTTED.findall(text)
    words = re.findall(r"[\w'-]+", text)
    yield from map(" ".join, zip(words, words[1:], words[2:], words[3:], strict=False))


def used(text: str) -> Iterator[str]:
    """What a file uses or says: modules, names, attributes, and what stands in its literals and docstrings."""
    yield from said(text)
    yield from re.findall(r"\w+", text)
    yield from re.findall(r"(?<![\w.])\w+\.\w+", text)
    yield from (f"a word: {word}" for word in re.findall(r"[\w-]+", text))
    yield from (f"{module}.{name}" for module, names in IMPORTED.findall(text) for name in re.findall(r"\w+", names))


def marks_of(text: str) -> Iterator[str]:
    """What a module can be known by: the names that it defines, and what it says."""
    yield from DEFINED.findall(text)
    for long, short in LITERAL.findall(text):
        yield from said(long or short)


def unnamed() -> set[str]:
    """The modules that no test names.

    A test names a module where it imports it or mentions it as `room.module`, is called like it in its room, or has
    what the module alone has: something that it defines, the name of a mistake, a message. A verb is named by its name.
    """
    by_tests = {mark for text in files().values() for mark in used(text)}
    mirrored = {path.with_name(path.name.removeprefix("test_")).relative_to(TESTS).as_posix() for path in files()}
    marks = {name: {*marks_of(path.read_text(encoding="utf-8"))} for name, path in modules().items()}
    owners = Counter(mark for own_marks in marks.values() for mark in own_marks)
    left = set()
    for name in modules():
        package, _, rest = name.partition(".")
        folder = next(folder for folder, source in SOURCES.items() if source.endswith(package))
        *_, parent, module = name.split(".")
        names = {name, f"{parent}.{module}", *(mark for mark in marks[name] if owners[mark] == 1)}
        if parent == "commands" and not module.startswith("_"):
            names = {f"a word: {module.replace('_', '-')}"}
        if not names & by_tests and f"{folder}/{rest.replace('.', '/')}.py" not in mirrored:
            left.add(name)
    return left


def test_every_module_of_the_product_is_named_by_a_test() -> None:
    """What a new one is tested by says so: in its docstring, as "It runs `room.module`, too", if nothing else does."""
    assert unnamed() == set()


def test_what_a_test_says_that_it_runs_is_there() -> None:
    texts = (text for path, text in files().items() if path != Path(__file__))
    mentioned = [
        name for text in texts for part in re.findall("It runs (.*?), too", text, re.S) for name in DOTTED.findall(part)
    ]
    assert mentioned and {*mentioned} <= {".".join(name.split(".")[-2:]) for name in modules()}
