"""Streaming: whole characters as soon as they are certain, and together what `decode` gives."""

import random
from collections.abc import Callable
from itertools import product
from typing import Any

from tokenizers import Tokenizer

from qwen3_encdec.tokenizer.byte_symbols import SYMBOLS
from qwen3_encdec.tokenizer.stream import unfinished
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

Pair = Callable[..., tuple[Tokenizer, ByteLevelTokenizer]]


def chunks(ours: ByteLevelTokenizer, ids: list[int], *, skip_special_tokens: bool = False) -> list[str]:
    stream = ours.stream(skip_special_tokens=skip_special_tokens)
    return [*map(stream.push, ids), stream.finish()]


def test_a_character_comes_with_its_last_byte(pair: Pair) -> None:
    _, ours = pair()
    assert chunks(ours, list("a\u00e9\U0001d4b3".encode())) == ["a", "", "\u00e9", "", "", "", "\U0001d4b3", ""]


def test_a_byte_that_nothing_can_mend_is_replaced_at_once(pair: Pair) -> None:
    _, ours = pair()
    assert chunks(ours, [0x80, 0x41]) == ["\ufffd", "A", ""]
    assert chunks(ours, [0xE4, 0xBD, 0x41]) == ["", "", "\ufffdA", ""]
    assert chunks(ours, [0xED, 0xA0]) == ["", "\ufffd\ufffd", ""]
    assert chunks(ours, [0xF4, 0x90]) == ["", "\ufffd\ufffd", ""]


def test_a_replacement_character_of_the_text_passes_at_once(pair: Pair) -> None:
    _, ours = pair()
    assert chunks(ours, [*"\ufffd".encode(), 0x41]) == ["", "", "\ufffd", "A", ""]


def test_finish_gives_what_was_cut_off_and_starts_anew(pair: Pair) -> None:
    _, ours = pair()
    stream = ours.stream()
    assert [stream.push(0xF0), stream.push(0x9F), stream.finish(), stream.finish()] == ["", "", "\ufffd", ""]
    assert [stream.push(0x9F), stream.push(0x41)] == ["\ufffd", "A"]


def test_skipped_tokens_do_not_cut_a_character(ours: ByteLevelTokenizer) -> None:
    first, second = (ours.vocabulary[SYMBOLS[byte]] for byte in "\u00e9".encode())
    end = ours.id_of("<|im_end|>")
    assert chunks(ours, [first, end, second], skip_special_tokens=True) == ["", "", "\u00e9", ""]
    assert chunks(ours, [first, end, second]) == ["", "\ufffd<|im_end|>", "\ufffd", ""]


def test_a_stream_is_what_decode_gives_for_any_ids(hf: Any, ours: ByteLevelTokenizer) -> None:
    draw = random.Random(27)
    rare = [*(token.id for token in ours.added_tokens), *(ours.vocabulary[symbol] for symbol in SYMBOLS[128:])]
    every = sorted(ours.pieces)
    for _ in range(1000):
        ids = [draw.choice(draw.choice([rare, every])) for _ in range(draw.randint(0, 10))]
        for skip in (False, True):
            text = hf.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
            assert "".join(chunks(ours, ids, skip_special_tokens=skip)) == text, f"seed 27: {ids}"


def test_a_prefix_of_a_stream_is_a_prefix_of_the_text(ours: ByteLevelTokenizer) -> None:
    """What has come out at any moment is all whole characters of the bytes so far."""
    ids = ours.encode("caf\u00e9 \u4e2d\u6587 \U0001f469\u200d\U0001f680 \u00b2 <think>\ufffd")
    given = ""
    for count, chunk in enumerate(chunks(ours, ids)[:-1], start=1):
        given += chunk
        data = ours.decode_bytes(ids[:count])
        assert given == data.decode("utf-8", errors="ignore")


def test_bytes_wait_if_and_only_if_some_character_begins_with_them() -> None:
    """By the definition: one to three bytes, each of them an end of a range of UTF-8's."""
    edges = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF]
    edges += [0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
    # A step of 0x40 leaves out no more than last bytes.
    characters = [chr(code).encode() for code in range(0x80, 0x110000, 0x40) if not 0xD800 <= code < 0xE000]
    beginnings = {character[:size] for character in characters for size in range(1, len(character))}
    for size in (1, 2, 3):
        for data in map(bytes, product(edges, repeat=size)):
            assert unfinished(data) == next((n for n in (3, 2, 1) if n <= size and data[-n:] in beginnings), 0), data
