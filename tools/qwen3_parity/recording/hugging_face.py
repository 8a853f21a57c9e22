"""Where a model that names its modules as Hugging Face does has its taps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qwen3_golden import pb
from qwen3_golden.networks import Bound, bound
from qwen3_parity.recording.names import Named, left_out, says_all


def row_of(entry: Named, pattern: str) -> Bound:
    """A row for one of the taps of an entry of a name map."""
    row = pb.Row(name=pattern)
    setattr(row, "argument" if entry.end == "input" else "output", entry.number)
    return Bound(pattern, entry.path, row)


def end_of(row: pb.Row) -> tuple[str, int]:
    """Which end of its module a row is, and the number there: ("input", 0), ("output", 1)."""
    return ("input", row.argument) if row.HasField("argument") else ("output", row.output)


def usual_rows(paths: Iterable[str], stack: str, named: Sequence[Named] = ()) -> list[Bound]:
    """The rows of a network whose modules the model has, below the prefix that has most of them.

    None beside a name map that names a tap, and without those that it leaves out.
    """
    if says_all(named):
        return []
    out = left_out(named)
    return [row for row in _usual_rows(paths, stack) if (row.module, *end_of(row.row)) not in out]


def _usual_rows(paths: Iterable[str], stack: str) -> list[Bound]:
    table = [row for row in bound(stack) if not row.row.inside and not row.row.encoder_half and row.module]
    there = set(paths)
    ends = {row.module for row in table}
    prefixes = {path.removesuffix(end) for path in there for end in ends if f".{path}".endswith(f".{end}")}
    best = max(sorted(prefixes), key=lambda prefix: sum(prefix + row.module in there for row in table), default="")
    rows = [Bound(row.pattern, best + row.module, row.row) for row in table if best + row.module in there]
    context = [row for row in rows if row.pattern.endswith(".o_proj")]  # what goes into it, where no call shows it
    return rows + [
        Bound(row.pattern.replace("o_proj", "context"), row.module, pb.Row(name="context", argument=0))
        for row in context
    ]
