"""What is known to go wrong in ports, by id, from bugs.textproto."""

from __future__ import annotations

import re
from functools import cache

from google.protobuf import text_format

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import ParityError
from qwen3_golden.taps import committed_text

BUG_ID = re.compile(r"\b(?!UTF)(?:[A-Z]{3}|T5B)-[0-9]{2}\b")
"""How an id looks, wherever it stands in a text; UTF-16 is none."""


@cache
def bugs() -> tuple[pb.Bug, ...]:
    """The rows of bugs.textproto, sorted by id; raises `ParityError` away from a clone."""
    return tuple(text_format.Parse(committed_text("bugs.textproto"), pb.BugTable()).bug)


def bug(name: str) -> pb.Bug:
    """The bug of an id, with or without the variant behind it ("ROP-22/hidden"); `ParityError` when there is none."""
    for row in bugs():
        if row.id == name.partition("/")[0]:
            return row
    raise ParityError(
        "bugs.textproto",
        "no bug has this id",
        expected='an id of golden/bugs.textproto, as "MSK-21"',
        got=name,
        next_step="look it up in golden/bugs.textproto",
    )
