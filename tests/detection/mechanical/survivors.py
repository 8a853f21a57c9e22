"""The survivors that somebody has looked at: why no case objects, from `survivors.txt` beside this file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from qwen3_golden import ParityError

JUDGED = Path(__file__).with_name("survivors.txt")
KINDS = ("equivalent", "missing case")
_ANY = " *"


@dataclass(frozen=True)
class Reason:
    """Why mutants survive: `kind` of `KINDS`, and in words why no number changes, or which case would show it."""

    kind: str
    why: str


def judged(path: Path = JUDGED) -> dict[str, Reason]:
    """Reasons by key of the mutant; a function and ` *` stand for the mutants of its lines that no case runs.

    In the file a line at the margin is a reason, `equivalent: …` or `missing case: …`, and the indented lines below it
    are the keys that it holds for, up to an empty one. Raises `ParityError` for a line that is neither, or a key that
    stands there twice.
    """
    found: dict[str, Reason] = {}
    reason: Reason | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            reason = None
            continue
        if not line.startswith(" "):
            kind, _, why = line.partition(": ")
            reason = Reason(kind, why.strip())
        key = line.strip()
        if reason is None or reason.kind not in KINDS or not reason.why or (line.startswith(" ") and key in found):
            raise ParityError(
                f"{path}:{number}",
                "a judgement that cannot be read",
                expected=f"{' or '.join(KINDS)}, a colon and a reason; below it keys, indented, each once in the file",
                got=line,
                next_step="mend the line",
                fault="harness bug",
            )
        if line.startswith(" "):
            found[key] = reason
    return found


def reason_of(key: str, known: Mapping[str, Reason], *, reached: bool) -> Reason | None:
    """The reason given for a mutant: its own, or where no case runs the line, that of its function."""
    return known.get(key) or (None if reached else known.get(_function(key) + _ANY))


def stale(known: Mapping[str, Reason], survived: Iterable[str], unreached: Iterable[str]) -> list[str]:
    """The judged keys that no survivor has any more: caught by now, or gone from the source."""
    left = list(unreached)
    return sorted(set(known) - {*survived, *left, *(_function(key) + _ANY for key in left)})


def _function(key: str) -> str:
    """The module and the function of a mutant's key."""
    return " ".join(key.split(" ", 2)[:2])
