"""Vocabulary and merges: reading `vocab.json` and `merges.txt`, and what must hold of them wherever they stand."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .byte_symbols import SYMBOLS
from .errors import TokenizerError
from .json_files import read_json, read_text

Merges = list[tuple[str, str]]


def read_vocabulary(path: Path) -> dict[str, int]:
    """The pieces of a `vocab.json` and their ids; checked."""
    return checked_vocabulary(path, read_json(path))


def read_merges(path: Path) -> Merges:
    """The pairs of a `merges.txt` by rank. A first line that starts with "#version" is a header."""
    lines = read_text(path).split("\n")
    if lines[-1] == "":
        del lines[-1]
    header = bool(lines) and lines[0].startswith("#version")
    merges = []
    for number, line in enumerate(lines[header:], 1 + header):
        parts = line.removesuffix("\r").split(" ")
        # Hugging Face skips every line that starts like the header, and all ranks behind it would be others.
        if len(parts) != 2 or not all(parts) or line.startswith("#version"):
            raise TokenizerError(
                f"{path}, line {number}",
                "a line is a merge: two pieces and one space between them",
                expected="'left right'",
                got=ascii(line[:80]),
                next_step="fetch the file again" if number < len(lines) else "the file may be cut off: fetch it again",
            )
        merges.append((parts[0], parts[1]))
    return merges


def checked_vocabulary(where: object, content: Any) -> dict[str, int]:
    """The same vocabulary, if it is one: ids are numbers and each belongs to one piece, and every byte has a piece."""

    def refuse(rule: str, expected: str, got: str) -> TokenizerError:
        return TokenizerError(
            where, rule, expected=expected, got=got, next_step="take the file as the model was published with it"
        )

    if not isinstance(content, dict):
        raise refuse("a vocabulary maps pieces to ids", "a JSON object", type(content).__name__)
    pieces: dict[int, str] = {}
    for piece, id in content.items():
        if type(id) is not int or not 0 <= id < 1 << 32:
            raise refuse("an id is a whole number from 0 to 2^32 - 1", "such an id", f"{id!r} for {piece!a}")
        if (owner := pieces.setdefault(id, piece)) is not piece:
            raise refuse("an id belongs to one piece", f"id {id} once", f"{owner!a} and {piece!a}")
    for byte, symbol in enumerate(SYMBOLS):
        if symbol not in content:
            raise refuse("every byte has a piece", f"{symbol!r} for the byte 0x{byte:02X}", "no such piece")
    return content


def check_merges(place: Callable[[int], str], vocabulary: Mapping[str, int], merges: Merges) -> None:
    """`TokenizerError` unless each merge makes a piece of the vocabulary from two others; `place` names a rank."""

    def refuse(rank: int, rule: str, expected: str, got: str) -> TokenizerError:
        return TokenizerError(
            place(rank), rule, expected=expected, got=got, next_step="take vocabulary and merges of the same model"
        )

    for rank, (left, right) in enumerate(merges):
        for piece, role in ((left, "its left piece"), (right, "its right piece"), (left + right, "its result")):
            if piece not in vocabulary:
                merge = f"{left!a} + {right!a}"
                raise refuse(rank, "a merge is of pieces", f"{role} {piece!a} in the vocabulary", f"only {merge}")
    if len(set(merges)) < len(merges):
        ranks: dict[tuple[str, str], int] = {}
        for rank, pair in enumerate(merges):
            if (first := ranks.setdefault(pair, rank)) != rank:
                raise refuse(rank, "a merge has one rank", f"{' '.join(pair)!a} once", f"also {place(first)}")
