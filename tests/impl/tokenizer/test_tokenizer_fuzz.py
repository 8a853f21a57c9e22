"""Our tokenizer against Hugging Face's on generated texts: ids, offsets, stages, decoding and streaming are equal.

The short form takes some of everything; the long one goes through every code point and every entry of the vocabulary,
and then draws: more than a million texts. A failure names the seed, the number of the text, the text, and both sides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any

import properties
import pytest
from properties import Both, Pairs
from texts import Words, drawn, everything

from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

SEED = 20_001
SHORT, DRAWN, EVERY_SPLIT, AT_ONCE = 4_000, 250_000, 10_000, 500
ONE_BY_ONE = (
    *(properties.ids, properties.ids_of_plain_text, properties.offsets, properties.stages),
    *(properties.decoded, properties.streamed),
)

Property = Callable[[Both], Pairs]


@pytest.fixture(scope="session")
def words(ours: ByteLevelTokenizer) -> Words:
    added = {token.id for token in ours.added_tokens}
    entries = [ours.decode([id]) for id in sorted(ours.pieces.keys() - added)]
    return Words([text for text in entries if "\ufffd" not in text], [token.content for token in ours.added_tokens])


@pytest.fixture(scope="session")
def some(words: Words) -> list[str]:
    every = list(everything(words))
    return [*Random(SEED).sample(every, SHORT // 2), *islice(drawn(SEED, words), SHORT // 2)]


def check(ours: ByteLevelTokenizer, hf: Any, texts: Iterable[str], wanted: Iterable[Property]) -> int:
    """How many texts were seen; the first one that differs in a property fails the test."""
    theirs, rest, seen = hf.backend_tokenizer, iter(texts), 0
    while chunk := list(islice(rest, AT_ONCE)):
        both = Both(chunk, ours, theirs, theirs.encode_batch(chunk, add_special_tokens=False), Random(SEED + seen))
        for one in wanted:
            for at, (got, right) in enumerate(one(both)):
                assert got == right, f"{one.__name__}: seed {SEED}, text {seen + at}: {chunk[at]!a}"
        seen += len(chunk)
    return seen


def corpora(data: Path) -> list[str]:
    naughty = json.loads((data / "texts" / "blns.json").read_text(encoding="utf-8"))
    rights = (data / "texts" / "udhr.jsonl").read_text(encoding="utf-8").splitlines()
    return [*naughty, *(json.loads(line)["text"] for line in rights)]


@pytest.fixture(scope="session")
def data() -> Path:
    path = os.environ.get("QWEN3_PARITY_DATA")
    if not path:
        pytest.skip("QWEN3_PARITY_DATA is not set: no third-party texts to test on")
    return Path(path)


@pytest.mark.parametrize("wanted", ONE_BY_ONE, ids=lambda one: one.__name__)
def test_generated_texts_are_as_in_hugging_face(
    ours: ByteLevelTokenizer, hf: Any, some: list[str], wanted: Property
) -> None:
    assert check(ours, hf, some, [wanted]) == SHORT


@pytest.mark.slow
def test_a_million_generated_texts_are_as_in_hugging_face(ours: ByteLevelTokenizer, hf: Any, words: Words) -> None:
    texts = chain(everything(words), islice(drawn(SEED, words), DRAWN))
    assert check(ours, hf, texts, ONE_BY_ONE) >= 1_000_000


@pytest.mark.slow
def test_streams_that_end_anywhere_are_as_in_hugging_face(ours: ByteLevelTokenizer, hf: Any, words: Words) -> None:
    texts = islice(drawn(SEED + 1, words), EVERY_SPLIT)
    assert check(ours, hf, texts, [properties.streamed_at_every_split]) == EVERY_SPLIT


@pytest.mark.slow
def test_corpora_are_as_in_hugging_face(ours: ByteLevelTokenizer, hf: Any, data: Path) -> None:
    texts = corpora(data)
    assert check(ours, hf, texts, ONE_BY_ONE) == len(texts) > 500


def test_ids_that_other_projects_recorded_are_ours(ours_real: ByteLevelTokenizer, data: Path) -> None:
    lines = (data / "texts" / "token-vectors.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        assert ours_real.encode(row["text"]) == row["ids"], f"{row['name']}: {row['text']!a}"
