"""The committed tokenization goldens contain what each theme is there for."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_reference.tokenization.texts import LONG_RUN


@cache
def golden(theme: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / "tokenization" / f"{theme}.pb", digests=True)


def encodings(theme: str) -> dict[str, pb.Encoding]:
    return {item.name: item for item in golden(theme).tokenization.encoding}


def pieces(item: pb.Encoding) -> list[str]:
    """The pre-tokens' symbols, in order."""
    return [token.symbols for segment in item.segment for token in segment.pre_token]


def ranks(item: pb.Encoding) -> list[int]:
    return [rank for segment in item.segment for token in segment.pre_token for rank in token.merge]


def _added(tokenizer: str) -> dict[int, dict[str, object]]:
    file = GOLDEN_ROOT / "tokenizers" / tokenizer / "tokenizer.json"
    return {token["id"]: token for token in json.loads(file.read_text(encoding="utf-8"))["added_tokens"]}


def _vocabulary(tokenizer: str) -> dict[str, int]:
    file = Path(GOLDEN_ROOT / "tokenizers" / tokenizer / "tokenizer.json")
    found: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"]
    return found


def test_words_have_the_empty_text_and_both_ends() -> None:
    texts = {item.text for item in encodings("words").values()}
    assert "" in texts and any(t.startswith(" ") for t in texts) and any(t.endswith("  ") for t in texts)
    assert encodings("words")["contractions_upper"].text.count("'") > 5
    assert "'T" in pieces(encodings("words")["contractions_upper"])


def test_a_straight_apostrophe_cuts_what_a_curly_one_does_not() -> None:
    assert {"'s", "leep"} <= set(pieces(encodings("words")["contractions_mixed"]))
    assert "âĢĻsleep" in pieces(encodings("words")["curly_apostrophe"])


def test_numbers_stand_alone_in_every_script() -> None:
    for name in ("digit_run", "long_run", "arabic_indic", "other_scripts"):
        for segment in encodings("numbers")[name].segment:
            runs = [segment.normalized[token.begin : token.end] for token in segment.pre_token]
            assert not [run for run in runs if sum(unicodedata.category(c)[0] == "N" for c in run) > 1]
            assert sum(unicodedata.category(c)[0] == "N" for c in segment.normalized) >= 10 or name == "arabic_indic"


@pytest.mark.parametrize("wanted", ["p->", "(x):\n", "## ", "# #", "\n#version", "\t\t", "        "])
def test_code_has(wanted: str) -> None:
    assert any(wanted in item.text for item in encodings("code").values())


@pytest.mark.parametrize("wanted", ["\r\n", "\t", "\n\n\n", "\n  \n", "  ", "\r", "\x0b", "\u00a0", "\u3000", "\u0085"])
def test_white_space_has(wanted: str) -> None:
    assert any(wanted in item.text for item in encodings("whitespace").values())
    assert any(set(item.text) == {" "} for item in encodings("whitespace").values())


@pytest.mark.parametrize(
    "wanted",
    [
        *("e\u0301", "\u1112\u1161\u11ab", "天", "👩\u200d👩", "𝒳", "𠀀", "\u0323", "٠", "²", "Ⅷ", "ﬁ", "①", "Ｈ"),
        *("\x00", "\x7f", "\u00ad", "\ufeff", "\ufffd", "\U0010ffff", "’", "᾽", "ď", "ϕ", "<0x0A>"),
    ],
)
def test_unicode_has(wanted: str) -> None:
    themes = ("unicode", "numbers", "words")
    assert any(wanted in item.text for theme in themes for item in encodings(theme).values())


def test_decomposed_texts_are_composed_and_compatibility_characters_are_kept() -> None:
    def normalized(name: str) -> str:
        return "".join(segment.normalized for segment in encodings("unicode")[name].segment)

    assert normalized("accents_nfd") == normalized("accents_nfc") == encodings("unicode")["accents_nfc"].text
    assert normalized("hangul_nfd") == "한국어"
    for name in ("ligatures", "circled_and_squared", "full_width"):
        assert normalized(name) == encodings("unicode")[name].text


def test_merges_have_the_hard_runs() -> None:
    found = encodings("merges")
    texts = {item.text for item in found.values()}
    assert {"brutalist", "ababab", "a" * 3000} <= texts and any(".:.:" in text for text in texts)
    assert len(found["long_run"].text) == LONG_RUN and " " not in found["long_run"].text
    assert len(found["long_run"].segment[0].pre_token) == 1
    assert len(ranks(found["brutalist"])) > len(set(ranks(found["ababab"])))


def test_entries_that_no_merge_makes_do_not_come_from_text() -> None:
    unmade = [item for name, item in encodings("merges").items() if name.startswith("made_by_no_merge/")]
    assert unmade and all(len(item.id) > 1 for item in unmade)
    whole = {item.name.partition("/")[2] for item in unmade if pieces(item) == [item.name.partition("/")[2]]}
    assert whole and whole <= _vocabulary("tiny").keys()


def test_special_tokens_are_found_and_as_plain_text_are_not() -> None:
    added = _added("tiny")
    for name, item in encodings("special_tokens").items():
        special = [i for i in item.id if i in added and added[i]["special"]]
        if item.split_special_tokens:
            assert name.endswith("/split") and not special
        elif "<|im_end|>" in item.text:
            assert special, name


def test_each_sentinel_is_one_id_behind_the_padding_rows() -> None:
    tokens = _added("tiny-sentinels")
    sentinels = {
        str(token["content"]): number for number, token in tokens.items() if "extra_id" in str(token["content"])
    }
    assert list(encodings("sentinels")["all"].id) == [sentinels[f"<extra_id_{i}>"] for i in range(12)]
    assert min(sentinels.values()) == max(sentinels.values()) - 11
    assert min(sentinels.values()) > max(set(tokens) - set(sentinels.values())) + 1
    (ten,) = encodings("sentinels")["ten"].id
    assert ten == sentinels["<extra_id_10>"]


def test_decodings_have_every_id_and_every_byte_alone() -> None:
    found = golden("decoding").tokenization.decoding
    decoded = {number for item in found for number in item.id}
    assert decoded == set(_vocabulary("tiny").values()) | set(_added("tiny"))
    alone = {bytes(item.piece[0]) for item in found if len(item.id) == 1}
    assert {bytes([byte]) for byte in range(0x80, 0x100)} <= alone


def test_a_piece_with_a_character_that_stands_for_no_byte_is_its_own_utf_8() -> None:
    raw = {number: piece for piece, number in _vocabulary("tiny").items() if "→" in piece}
    found = {
        number: bytes(piece)
        for item in golden("decoding").tokenization.decoding
        for number, piece in zip(item.id, item.piece, strict=True)
    }
    assert raw and all(found[number] == piece.encode() for number, piece in raw.items())


def test_chunks_join_to_the_text_and_there_is_one_more_than_ids() -> None:
    for item in golden("decoding").tokenization.decoding:
        assert "".join(item.chunk) == item.text and len(item.chunk) == len(item.id) + 1, item.name
        assert len(item.piece) == len(item.id)


def test_decodings_have_broken_characters_and_skipped_tokens() -> None:
    found = {item.name: item for item in golden("decoding").tokenization.decoding}
    assert sum("\ufffd" in item.text for item in found.values()) > 100
    assert found["added/in_a_character_skipped"].text == "日"
    assert "\ufffd" in found["added/in_a_character_kept"].text
    assert found["text/clean_up"].text.count(" ") > 10 and found["text/byte_like"].text.startswith("a<0x0A>")
    assert found["nothing"].text == ""


def test_batches_have_both_sides_and_empty_rows() -> None:
    found = golden("batches").tokenization.batch
    assert {(item.padding_side, item.truncation_side) for item in found} >= {("left", "left"), ("right", "left")}
    assert any(not any(row.attention_mask) for item in found for row in item.row)
    for item in found:
        assert len({len(row.input_id) for row in item.row}) == 1
        assert not item.pad_to_multiple_of or len(item.row[0].input_id) % item.pad_to_multiple_of == 0


def test_the_three_ways_of_thinking_differ_where_they_should() -> None:
    found = {item.name: item for item in golden("chat").tokenization.conversation}
    for name in {name.rpartition("/")[0] for name in found}:
        closed, prompt = found[f"{name}/closed"].rendered, found[f"{name}/prompt"].rendered
        assert prompt == closed + "<|im_start|>assistant\n" == found[f"{name}/prompt_thinking"].rendered
        assert found[f"{name}/prompt_no_thinking"].rendered == prompt + "<think>\n\n</think>\n\n"


def test_reasoning_of_earlier_turns_is_gone() -> None:
    found = {item.name: item.rendered for item in golden("chat").tokenization.conversation}
    assert "map" not in found["thought_before/closed"] and found["thought_twice/closed"].count("map") == 1
    assert re.search(r"<tools>(.|\n)*Öre(.|\n)*</tools>", found["tools/closed"])
    assert found["tool_called_by_thought/closed"].count("<tool_response>") == 2
