"""Merging by its definition, by hand, and the symbols that it works on."""

import pytest

from qwen3_encdec.tokenizer.byte_symbols import BYTES, SYMBOLS, to_bytes, to_symbols
from qwen3_encdec.tokenizer.merge import merge


@pytest.mark.parametrize(
    ("pairs", "symbols", "pieces", "ranks"),
    [
        ("", "", [], []),
        ("", "abc", ["a", "b", "c"], []),
        ("b c,a b", "abc", ["a", "bc"], [0]),  # The lowest rank, not the leftmost or the longest.
        ("a a", "aaaaa", ["aa", "aa", "a"], [0, 0]),  # Of equals the leftmost, every time.
        ("a a,aa aa", "aaaaa", ["aaaa", "a"], [0, 0, 1]),
        ("a b,ab ab", "ababab", ["abab", "ab"], [0, 0, 0, 1]),
        ("ab c,a b", "abc", ["abc"], [1, 0]),  # A rank lower than that of its own part.
        ("a b,c d,ab cd,bc d", "abcd", ["abcd"], [0, 1, 2]),
        ("a bc,ab c,a b,b c", "abc", ["abc"], [2, 1]),  # Two merges make one piece.
    ],
)
def test_merges_are_applied_by_rank(pairs: str, symbols: str, pieces: list[str], ranks: list[int]) -> None:
    known = {tuple(pair.split(" ")): rank for rank, pair in enumerate(pairs.split(",")) if pair}
    assert merge(symbols, known) == (pieces, ranks)  # type: ignore[arg-type]


def test_every_byte_has_a_symbol_of_its_own_that_can_be_printed() -> None:
    assert len(set(SYMBOLS)) == 256 == len(BYTES)
    assert all(symbol.isprintable() and not symbol.isspace() for symbol in SYMBOLS)
    assert to_symbols(" a\n\u00e9\x7f\xad") == "ĠaĊÃ©ġÂŃ"


def test_symbols_are_bytes_again() -> None:
    assert to_bytes("".join(SYMBOLS)) == bytes(range(256))


def test_a_piece_with_a_character_that_is_no_symbol_is_its_own_text() -> None:
    assert to_bytes("Ġ→") == "Ġ→".encode()
