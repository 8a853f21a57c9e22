"""Failures that are known: a list that must be exactly what fails, by the rules of protobuf's conformance tests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from qwen3_golden import ParityError
from qwen3_golden.contract import released_cases
from qwen3_golden.regular_file import open_regular

_MOST = 20
"""Cases that one line may stand for."""
FRESH = "fresh/"
"""How the names of fresh cases begin, which have no number: a line stands for one of them."""


class Known(NamedTuple):
    """A line of the list: cases by name or with `*`, and what is said of their failure, or how that begins."""

    line: int
    glob: str
    message: str

    def covers(self, name: str) -> bool:
        """Whether it stands for a case; a fresh one has to be named in full."""
        return name == self.glob if name.startswith(FRESH) else fnmatchcase(name, self.glob)

    def says(self, message: str) -> bool:
        """Whether a failure is of its kind: its message, or whole words that the message begins with."""
        return message.startswith(self.message) and not message[len(self.message) :][:1].isalnum()


def load(path: Path) -> list[Known]:
    """The list of a file: `case # message` a line, lines of comment and empty ones apart.

    Raises `ParityError` for a file that cannot be read as text, and for a line that does not say how a case fails.
    """
    try:
        with open_regular(path) as file:
            lines = file.read().decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ParityError(
            path,
            "the list of known failures cannot be read",
            expected="text, a case a line, as 'training/tied # unsupported: training'",
            got=error,
            next_step="write the list, or leave --known out",
        ) from None
    entries = []
    for number, line in enumerate(lines, 1):
        name, _, message = (part.strip() for part in line.partition("#"))
        if name and not message:
            raise ParityError(
                f"{path}, line {number}",
                "a known failure says how it fails",
                expected="case # message, or how the message begins, as 'op/rope # divergence'",
                got=line.strip(),
                next_step="take the message from the lines of a run without --known",
            )
        if name:
            entries.append(Known(number, name, message))
    return entries


def surprises(known: Sequence[Known], failed: Mapping[str, str], names: Collection[str]) -> Iterator[str]:
    """What is not as listed, a line each; `failed` has what is said of each case that fails, `names` are all.

    A line for cases of the release that this run did not ask for is no surprise. How many cases a line stands for is
    counted in the whole release, however few are run.
    """
    listed: dict[str, Known] = {}
    released = released_cases()
    for entry in known:
        covered = [name for name in names if entry.covers(name)]
        where = f"line {entry.line}, {entry.glob}"
        if not covered and not any(map(entry.covers, released)):
            yield f"{where}: no case of this run is called so"
        if (count := sum(map(entry.covers, {*released, *names}))) > _MOST:
            yield f"{where}: stands for {count} cases, and {_MOST} are allowed"
        for name in covered:
            if name in listed:
                yield f"{where}: {name} is in line {listed[name].line}, too"
            listed[name] = entry
            if name not in failed:
                yield f"{where}: {name} does not fail"
            elif not entry.says(failed[name]):
                yield f"{where}: {name} fails otherwise: {failed[name]}"
    for name, message in failed.items():
        if name not in listed:
            yield f"{name}: {message}"


def expected(known: Sequence[Known], failed: Mapping[str, str]) -> list[str]:
    """The cases that fail as it is known of them."""
    return [
        name for name, message in failed.items() if any(entry.covers(name) and entry.says(message) for entry in known)
    ]
