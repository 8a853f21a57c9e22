"""Failures that are known: a list that must be exactly what fails, by the rules of protobuf's conformance tests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from qwen3_golden import ParityError
from qwen3_golden.regular_file import open_regular

_MOST = 20
"""Cases that one line may stand for."""


class Known(NamedTuple):
    """A line of the list: cases by name or with `*`, and what is said of their failure, "" for whatever is said."""

    line: int
    glob: str
    message: str


def load(path: Path) -> list[Known]:
    """The list of a file: `case` or `case # message` a line, lines of comment and empty ones apart.

    Raises `ParityError` for a file that cannot be read as text.
    """
    try:
        with open_regular(path) as file:
            lines = file.read().decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ParityError(
            path,
            "the list of known failures cannot be read",
            expected="text, a case a line, as 'generation/beams # unsupported: beams'",
            got=error,
            next_step="write the list, or leave --known out",
        ) from None
    found = []
    for number, line in enumerate(lines, 1):
        name, _, message = line.partition("#")
        if name.strip():
            found.append(Known(number, name.strip(), message.strip()))
    return found


def surprises(known: Sequence[Known], failed: Mapping[str, str], names: Collection[str]) -> Iterator[str]:
    """What is not as listed, a line each; `failed` has what is said of each case that fails, `names` are all."""
    listed: dict[str, Known] = {}
    for one in known:
        own = [name for name in names if fnmatchcase(name, one.glob)]
        where = f"line {one.line}, {one.glob}"
        if not own:
            yield f"{where}: no case of this run is called so"
        if len(own) > _MOST:
            yield f"{where}: stands for {len(own)} cases, and {_MOST} are allowed"
        for name in own:
            if name in listed:
                yield f"{where}: {name} is in line {listed[name].line}, too"
            listed[name] = one
            if name not in failed:
                yield f"{where}: {name} does not fail"
            elif one.message and one.message != failed[name]:
                yield f"{where}: {name} fails otherwise: {failed[name]}"
    for name, message in failed.items():
        if name not in listed:
            yield f"{name}: {message}"
