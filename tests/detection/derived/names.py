"""The names that stand in the library's source, whether anything yields them or not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import qwen3_parity.mistakes as library
from qwen3_golden import table

_NAME = re.compile(r"[a-z]\w*\.\w*[^\W_]")
_OTHER_WORDS = {"norm.weight", "mask.given", "mask.memory", "mask.pad", "mask.window"}
"""The end of a parameter's name, and beginnings of names."""


def written() -> frozenset[str]:
    """Every name that the library's source spells out; those put together at run time are not among them."""
    roots = {row.pattern.partition(".")[0] for row in table()} - {"gradient", "logits", "loss"}
    names = {word for word in _words() if _NAME.fullmatch(word) and word.partition(".")[0] not in roots}
    parameters = {end for row in table() for name in row.parameters for end in _ends(name)}
    return frozenset(names - _OTHER_WORDS - parameters - _taps())


def _words() -> Iterator[str]:
    for path in sorted(Path(library.__path__[0]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _taps() -> frozenset[str]:
    return frozenset(end for row in table() for end in _ends(row.pattern))


def _ends(name: str) -> Iterator[str]:
    parts = name.replace("|", ".").split(".")
    yield from (".".join(parts[i:]) for i in range(len(parts)))
