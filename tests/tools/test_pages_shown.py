"""`show docs/x.md` prints a page that a message names, from a wheel, too."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.cli import main
from qwen3_parity.report.show_page import page_names

ROOT = GOLDEN_ROOT.parent
NAMED = re.compile(r"(?<![\w/])(?:docs|golden)/[\w-]+\.md")
FOLDERS = ("golden/qwen3_golden", "reference", "impl", "tools")


def show(name: str, *options: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["show", name, *options])
    assert done.exit_code == code, done.output
    return done.output


def words(*, docstrings: bool = True) -> Iterator[str]:
    """Every string of the product's source, or all but those that stand by themselves."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and (docstrings or id(node) not in alone)
                ):
                    yield node.value


@pytest.mark.parametrize("name", page_names())
def test_a_page_is_printed_as_it_is_written(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert show(name) == f"{text.rstrip()}\n"
    assert json.loads(show(name, "--json")) | {"page": name, "text": text} == json.loads(show(name, "--json"))


def test_every_page_that_the_source_names_is_there() -> None:
    named = {name for text in words() for name in NAMED.findall(text)}
    assert len(named) >= 4 and named <= set(page_names())


@pytest.mark.slow
def test_whoever_reads_a_message_is_told_how_to_see_its_page() -> None:
    unsaid = re.compile(r"(?<!qwen3-parity show )(?<!JSON: show )(?<![\w/])docs/[\w-]+\.md")
    assert not [text for text in words(docstrings=False) if unsaid.search(text)]


@pytest.mark.parametrize("name", ["docs/check-your-modle.md", "docs/nothing-like-it.md", "golden/../README.md"])
def test_a_page_that_is_not_there_is_refused(name: str) -> None:
    assert "expected" in show(name, code=2)


def test_the_nearest_page_is_said() -> None:
    assert "docs/check-your-model.md" in show("docs/check-your-modle.md", code=2)


def test_a_wheel_gets_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = "hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"
    interface: Any = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = type("BuildHookInterface", (), {"__class_getitem__": classmethod(lambda c, _: c)})
    for module in (*map(ModuleType, parts), interface):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    hook, data = hooks.WholeWheel(), dict[str, Any](force_include={})
    hook.root = str(ROOT)
    hook.initialize("standard", data)
    hook.finalize("standard", data, "")
    inside = {Path(path) for path in data["force_include"].values()}
    homes = {"docs": Path("qwen3_golden/docs"), "golden": Path("qwen3_golden/data")}
    assert not [name for name in page_names() if homes[name.split("/")[0]] / Path(name).name not in inside]
