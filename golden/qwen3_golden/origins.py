"""Where a candidate's own code makes its taps: written for all layers at once, read for one tap."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import printable

_LAYER = "{layer}"
_NUMBER = re.compile(r"(?<=\.)\d+(?=[.\[#]|$)")
_WHOLE_PATH = re.compile(r"[/\\]|[A-Za-z]:")
"""How a path begins that says where somebody's machine keeps the file."""


class Origin(NamedTuple):
    """The path of a module, "" the whole model, and a line of source; file "" and line 0 where that is unknown.

    As text "model.py:123, model.layers.1.self_attn", in which nothing moves a terminal's cursor or ends the line.
    """

    module: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ", ".join(printable(part).replace("\n", "\\n") for part in (place, self.module) if part)


def written(origins: Mapping[str, Origin]) -> list[pb.Origin]:
    """The origins of taps by name as a recording holds them: once for layers that are alike."""
    groups: dict[str, dict[str, Origin]] = {}
    for tap, origin in origins.items():
        groups.setdefault(_general(tap), {})[tap] = origin
    messages = []
    for pattern, taps in groups.items():
        alike = {_in_any_layer(tap, origin) for tap, origin in taps.items()}
        rows = {pattern: next(iter(alike))} if len(alike) == 1 else taps
        messages += [pb.Origin(tap=tap, module=row.module, file=row.file, line=row.line) for tap, row in rows.items()]
    return messages


def origin_of(run: pb.Run, tap: str) -> Origin | None:
    """Where a tap of a run was made, None where the recording does not say it."""
    pattern = _general(tap)
    rows = {row.tap: row for row in run.origin if row.tap in (tap, pattern)}
    row = rows.get(tap) or rows.get(pattern)
    number = _NUMBER.search(tap)
    if row is None:
        return None
    file = row.file if _WHOLE_PATH.match(row.file) is None else re.split(r"[/\\]", row.file)[-1]
    return Origin(row.module.replace(_LAYER, number[0] if number else ""), file, row.line)


def _general(tap: str) -> str:
    return _NUMBER.sub(_LAYER, tap, count=1)


def _in_any_layer(tap: str, origin: Origin) -> Origin:
    number = _NUMBER.search(tap)
    if number is None:
        return origin
    return origin._replace(module=re.sub(rf"(?<![^.]){number[0]}(?![^.])", _LAYER, origin.module, count=1))
