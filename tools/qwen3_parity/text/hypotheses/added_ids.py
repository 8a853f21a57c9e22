"""Wrong ways to tell which added token stands where: ids, sentinels, units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.segments import SENTINEL, changed
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_parity.text.stages_of import TRUTH


def _ids(number: Callable[[Oracle, int], int]) -> Compute:
    return changed(lambda oracle, _, found: [(begin, end, number(oracle, old)) for begin, end, old in found])


def _sentinel(number: Callable[[int, int, int, int], int]) -> Compute:
    """Sentinel i has the id `number(i, how many, the first one's id, entries before them)`."""

    def change(oracle: Oracle, old: int) -> int:
        found = {one["id"]: int(match[1]) for one in oracle.added if (match := SENTINEL.fullmatch(one["content"]))}
        if old not in found:
            return old
        below = 1 + max((one for one in oracle.pieces if one not in found), default=-1)
        return number(found[old], len(found), min(found), below)

    return _ids(change)


def _from_zero(oracle: Oracle, old: int) -> int:
    return sorted(one["id"] for one in oracle.added).index(old)


def _measured(size: Callable[[str], int]) -> Compute:
    """Begins and ends in other units."""

    def compute(oracle: Oracle, given: pb.Encoding, _: State) -> Any:
        found = TRUTH["segments"](oracle, given, {})
        return tuple((size(given.text[:begin]), size(given.text[:end]), number) for begin, end, number in found)

    return compute


_IDS = wrong_ways(
    "segments",
    "take the ids of added tokens from added_tokens_decoder or tokenizer.json; sentinel i is row padded size + i",
    [
        ("sentinels_descending", "numbers sentinels downwards, as T5 does",
            _sentinel(lambda i, n, first, below: first + n - 1 - i)),
        ("sentinels_off_by_one", "numbers sentinels from 1", _sentinel(lambda i, n, first, below: first + i + 1)),
        ("sentinels_off_by_one", "numbers sentinels from -1", _sentinel(lambda i, n, first, below: first + i - 1)),
        ("sentinels_compact", "numbers sentinels right behind the vocabulary, in the padding rows",
            _sentinel(lambda i, n, first, below: below + i)),
        ("sentinels_compact", "numbers sentinels downwards behind the vocabulary",
            _sentinel(lambda i, n, first, below: below + n - 1 - i)),
        ("ids_shifted", "gives each added token the next one's id", _ids(lambda o, old: old + 1)),
        ("ids_shifted", "gives each added token the id of the one before", _ids(lambda o, old: old - 1)),
        ("ids_from_zero", "numbers added tokens from 0", _ids(_from_zero)),
    ],
)  # fmt: skip

_UNITS = wrong_ways(
    "segments",
    "count characters (code points) of the raw text",
    [
        ("bytes", "counts bytes of UTF-8", _measured(lambda text: len(text.encode()))),
        ("utf16_units", "counts UTF-16 units", _measured(lambda text: len(text.encode("utf-16-le")) // 2)),
        ("end_inclusive", "gives the last character as the end",
            lambda o, g, s: tuple((b, e - 1, n) for b, e, n in TRUTH["segments"](o, g, s))),
        ("lengths_as_ends", "gives lengths where ends are asked for",
            lambda o, g, s: tuple((b, e - b, n) for b, e, n in TRUTH["segments"](o, g, s))),
    ],
)  # fmt: skip

WRONG: list[Wrong] = [*_IDS, *_UNITS]
"""Of the stage `segments`: ids and places."""
