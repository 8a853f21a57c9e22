"""Streaming decoding: ids one by one to text in whole characters."""

from __future__ import annotations

from collections.abc import Callable

from .decode import text_of

SECOND_BYTES = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}
"""What may follow these first bytes of a character; any other is followed by 0x80 to 0xBF."""


def unfinished(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character that further bytes may complete: 0 to 3."""
    for count in range(1, min(len(data), 3) + 1):
        first = data[-count]
        if 0x80 <= first < 0xC0:
            continue  # not the first byte of a character
        size = 1 + (0xC2 <= first < 0xF5) + (0xE0 <= first < 0xF5) + (0xF0 <= first < 0xF5)
        low, high = SECOND_BYTES.get(first, (0x80, 0xBF))
        may_go_on = count < size and (count == 1 or low <= data[1 - count] <= high)
        return count if may_go_on else 0
    return 0


class StreamDecoder:
    """Gives out the text of a stream of ids as soon as it is certain, and never a part of a character.

    Bytes that may yet become a character wait. Bytes that nothing can complete come out as U+FFFD at once, so that all
    that came out is the same text as decoding all ids together. Each id costs the same, however long the stream is.
    """

    def __init__(self, bytes_of: Callable[[int, int], bytes]) -> None:
        """`bytes_of`: the bytes of an id, b"" for one to be left out; its second argument counts the ids from 0."""
        self._bytes_of = bytes_of
        self._position = 0
        self._waiting = b""

    def push(self, id: int) -> str:
        """The text that this id makes certain, "" for nothing yet; an id that is none raises `TokenizerError`."""
        data = self._waiting + self._bytes_of(id, self._position)
        self._position += 1
        certain = len(data) - unfinished(data)
        self._waiting = data[certain:]
        return text_of(data[:certain])

    def finish(self) -> str:
        """What is left, U+FFFD for a character that was cut off; the decoder is then as new."""
        text = text_of(self._waiting)
        self._position, self._waiting = 0, b""
        return text
