"""What becomes of a dump: the forwards that it holds, and what of it has no name, no tensor or another shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from qwen3_golden import pb
from qwen3_parity.recording.slots import Forward


class Misfit(NamedTuple):
    """An array that is not shaped as its tap."""

    name: str
    tap: str
    expected: str
    got: str


@dataclass(frozen=True)
class Imported:
    """What became of a dump.

    `unmatched` are the names that mean no tap, {layer} for their numbers, each with the tap that it is most like;
    `without` the golden's taps that have no tensor; `recognised` the arithmetic whose numbers are stored as float32.
    """

    path: Path
    kind: str
    arrays: int
    tensors: int
    forwards: Sequence[Forward]
    unmatched: Mapping[str, str]
    without: Sequence[str]
    misfits: Sequence[Misfit]
    recognised: pb.Arithmetic
