"""What a committed golden says of itself, read once for all tests whose parameters depend on it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from qwen3_golden import pb, read


class Committed(NamedTuple):
    """A golden's case and run, to read and not to write, and the names of its tensors; none of its arrays."""

    case: pb.Case
    run: pb.Run
    taps: frozenset[str]


@cache
def committed(path: Path) -> Committed:
    """What stands in a committed golden, which no test changes."""
    golden = read(path)
    return Committed(golden.case, golden.run, frozenset(item.info.name for item in golden))
