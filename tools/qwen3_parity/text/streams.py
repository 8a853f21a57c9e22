"""When a stream gives text out: earlier than Hugging Face's is as good; not later, nor before its bytes are there."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence


def late(expected: Sequence[str], actual: Sequence[str]) -> int | None:
    """The first chunk with which `actual` has given out fewer characters than `expected`; None when it never has."""
    wanted = given = 0
    for index, (one, two) in enumerate(zip(expected, actual, strict=False)):
        wanted, given = wanted + len(one), given + len(two)
        if given < wanted:
            return index
    return None


def early(pieces: Sequence[bytes], actual: Sequence[str]) -> int | None:
    """The first chunk that gives out characters of which not every byte can have come; None where there is none.

    `pieces` are what the ids stand for: each brings its bytes, those of special ones too, which may be left out.
    """
    text = "".join(actual)
    decoder, come, given = getincrementaldecoder("utf-8")("replace"), 0, 0
    for index, (piece, chunk) in enumerate(zip(pieces, actual, strict=False)):
        come, given = come + len(decoder.decode(piece)), given + len(chunk)
        pending = len(decoder.getstate()[0].decode(errors="replace"))  # broken as they stand, if nothing mends them
        if given > come + pending or text[come:given].strip("\ufffd"):
            return index
    return None
