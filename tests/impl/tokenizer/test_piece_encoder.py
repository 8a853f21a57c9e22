"""The fast road gives what merging gives: on trained vocabularies, and on weird ones, which it must notice."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE

from qwen3_encdec.tokenizer.byte_symbols import SYMBOLS, to_symbols
from qwen3_encdec.tokenizer.files import TokenizerFiles, read_directory
from qwen3_encdec.tokenizer.merge import merge
from qwen3_encdec.tokenizer.merge_trees import merge_trees
from qwen3_encdec.tokenizer.piece_encoder import PieceEncoder


def weird(draw: Random, orderly: bool) -> tuple[dict[str, int], list[tuple[str, str]], str]:
    """Vocabulary, merges and letters, such as nobody would train; not orderly: also merges out of order, and several
    that make the same piece."""
    letters = draw.choice(["ab", "abc", "abcdé"])
    pieces = sorted(set(to_symbols(letters)))
    merges: list[tuple[str, str]] = []
    for _ in range(draw.randint(1, 150)):
        pair = draw.choice(pieces), draw.choice(pieces)
        if len("".join(pair)) <= 12 and pair not in merges and not (orderly and "".join(pair) in pieces):
            merges.append(pair)
            pieces.append("".join(pair))
    if not orderly:
        draw.shuffle(merges)
    names = list(dict.fromkeys([*SYMBOLS, *pieces]))
    draw.shuffle(names)
    return {name: id for id, name in enumerate(names)}, merges, letters


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("seed", range(60))
def test_merging_and_the_fast_road_are_hugging_faces_on_weird_vocabularies(seed: int, orderly: bool) -> None:
    draw = Random(seed)
    vocabulary, merges, letters = weird(draw, orderly)
    theirs, encode = Tokenizer(BPE(vocab=vocabulary, merges=merges)), PieceEncoder(vocabulary, merges)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    for _ in range(40):
        text = "".join(draw.choices(letters, k=draw.randint(0, 60)))
        expected = theirs.encode(to_symbols(text))
        said = f"seed {seed}: {text!a} by {json.dumps(merges)}"
        assert merge(to_symbols(text), ranks)[0] == expected.tokens, said
        assert list(encode(text)) == expected.ids, said


@pytest.mark.parametrize(
    ("merges", "orderly"),
    [
        ([("a", "b"), ("ab", "c")], True),
        ([("ab", "c"), ("a", "b")], False),  # Of a piece that is made later.
        ([("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")], False),  # Two make one piece.
        ([("xy", "z")], False),  # Of a piece that nothing makes.
    ],
)
def test_merges_that_are_not_orderly_are_noticed(merges: list[tuple[str, str]], orderly: bool) -> None:
    assert (merge_trees(merges) is not None) == orderly


def test_a_vocabularys_entry_that_merging_never_reaches_is_never_produced() -> None:
    # b + c comes first, so nothing ever makes "abc" of "ab" and "c".
    merges = [("b", "c"), ("a", "b"), ("ab", "c")]
    vocabulary = {piece: id for id, piece in enumerate([*SYMBOLS, "bc", "ab", "abc", "<e>"])}
    theirs, encode = Tokenizer(BPE(vocab=vocabulary, merges=merges)), PieceEncoder(vocabulary, merges)
    for text in ("abc", "xabcab", "<e>"):
        assert list(encode(text)) == theirs.encode(to_symbols(text)).ids


def words(files: TokenizerFiles, draw: Random, count: int) -> Iterator[str]:
    """Random bytes, characters, runs, and pieces of the vocabulary put together: what longest match gets wrong."""
    pieces = [piece for piece in files.vocabulary if len(piece) > 1]
    scripts = [(0x20, 0x7F), (0xA0, 0x250), (0x370, 0x600), (0xE00, 0xE80), (0x4E00, 0x9FFF), (0x1F300, 0x1F700)]
    for index in range(count):
        low, high = draw.choice(scripts)
        letters = [chr(draw.randrange(low, high)) for _ in range(draw.randint(1, 4))]
        text = "".join(draw.choices(letters, k=draw.randint(1, 40)))
        if index % 2:
            joined = "".join(draw.choices(pieces, k=draw.randint(1, 6)))
            text = bytes(SYMBOLS.index(symbol) for symbol in joined if symbol in SYMBOLS).decode(errors="ignore")
        yield text


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9))])
def test_ids_are_hugging_faces_on_a_trained_vocabulary(seed: int, vocabulary: str, request: Any) -> None:
    folder: Path = request.getfixturevalue(vocabulary)
    files = read_directory(folder)
    theirs = Tokenizer(BPE(vocab=files.vocabulary, merges=files.merges))
    encode = PieceEncoder(files.vocabulary, files.merges)
    for text in words(files, Random(seed), 1000):
        assert list(encode(text)) == theirs.encode(to_symbols(text)).ids, f"seed {seed}: {text!a}"


def test_a_trained_vocabulary_is_orderly(tiny: Path) -> None:
    assert merge_trees(read_directory(tiny).merges) is not None


@pytest.mark.slow
def test_the_real_vocabulary_is_orderly_and_merging_reaches_all_of_it(real: Path) -> None:
    trees = merge_trees(read_directory(real).merges)
    assert trees is not None
    assert len(trees.tokens) == 151_643


def test_what_is_remembered_is_bounded(tiny: Path) -> None:
    files = read_directory(tiny)
    encode = PieceEncoder(files.vocabulary, files.merges)
    assert len(encode.encode_all(["a" * 100_000])) == len(encode("a" * 100_000))
    assert len(encode._known) == 0
    for first in range(0, 200_000, 1000):
        encode.encode_all(str(number) for number in range(first, first + 1000))
    assert 0 < len(encode._known) <= 1 << 16


def test_a_word_is_encoded_once_and_then_remembered(tiny: Path) -> None:
    files = read_directory(tiny)
    encode = PieceEncoder(files.vocabulary, files.merges)
    assert encode.encode_all([" hello", " hello"]) == [*encode(" hello"), *encode(" hello")]
    assert encode(" hello") is encode(" hello")
