"""When a stream gives text out: earlier than Hugging Face's is as good, later is not."""

from __future__ import annotations

from collections.abc import Sequence


def late(expected: Sequence[str], actual: Sequence[str]) -> int | None:
    """The first chunk with which `actual` has given out fewer characters than `expected`; None when it never has."""
    wanted = given = 0
    for index, (one, two) in enumerate(zip(expected, actual, strict=False)):
        wanted, given = wanted + len(one), given + len(two)
        if given < wanted:
            return index
    return None
