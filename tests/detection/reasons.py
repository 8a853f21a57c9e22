"""Tables of judgements: text files that say of names, or of keys of mutants, what holds for them and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qwen3_golden import ParityError


@dataclass(frozen=True)
class Reason:
    """What holds, one of the file's few kinds, and why, in words."""

    kind: str
    why: str


def reasons(path: Path, kinds: Sequence[str]) -> dict[str, Reason]:
    """The reason of every key of a file.

    A line at the margin is a reason, `kind: why`, and the indented lines below it are the keys that it holds for, up to
    an empty one. Raises `ParityError` for a line that is neither, a key that stands there twice, a reason of nothing.
    """
    by_key: dict[str, Reason] = {}
    reason: Reason | None = None
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True), 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            reason = None
            continue
        if not line.startswith(" "):
            kind, _, why = line.partition(": ")
            reason = Reason(kind, why.strip())
        key = line.strip()
        wrong = key in by_key if line.startswith(" ") else not below.startswith(" ")
        if wrong or reason is None or reason.kind not in kinds or not reason.why:
            raise ParityError(
                f"{path}:{number}",
                "a judgement that cannot be read",
                expected=f"{' or '.join(kinds)}, a colon and a reason; below it keys, indented, each once in the file",
                got=line,
                next_step="mend the line",
                fault="harness bug",
            )
        if line.startswith(" "):
            by_key[key] = reason
    return by_key
