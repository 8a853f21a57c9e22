"""A long text in pieces, so that nobody holds every stage of all of it at once: cut where that changes no id."""

from __future__ import annotations

from collections.abc import Iterator

from qwen3_reference.tokenization.loading import ReferenceTokenizer

SIZE = 8192
"""Characters of a piece, give or take half of it; more where there is no place to cut."""
_TRIES = 8


def pieces(reference: ReferenceTokenizer, text: str, size: int = SIZE) -> Iterator[str]:
    """The text in parts of about `size` characters, none for no text.

    A cut is a place at which Hugging Face makes the same ids of what stands before and behind it, half a piece each
    way, as of both together.
    """
    begin = 0
    while len(text) - begin > 2 * size:
        end = _end(reference, text, begin, size)
        yield text[begin:end]
        begin = end
    if begin < len(text):
        yield text[begin:]


def _end(reference: ReferenceTokenizer, text: str, begin: int, size: int) -> int:
    """Where the piece that begins at `begin` ends."""
    while len(text) - begin > 2 * size:
        window = text[begin : begin + 2 * size]
        whole = _ids(reference, window)
        for place in _places(window, size):
            if _ids(reference, window[:place]) + _ids(reference, window[place:]) == whole:
                return begin + place
        size *= 2
    return len(text)


def _places(window: str, size: int) -> list[int]:
    """Places worth a try, the best first: where a line begins, or else a word, near the middle of the window."""
    middle = range(size // 2, size + size // 2)
    lines = [at for at in middle if window[at - 1] == "\n" and not window[at].isspace()]
    words = [at for at in middle if window[at] == " " and not window[at - 1].isspace()]
    return [at for places in (lines, words) for at in sorted(places, key=lambda at: abs(at - size))[:_TRIES]]


def _ids(reference: ReferenceTokenizer, text: str) -> list[int]:
    ids: list[int] = reference.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return ids
