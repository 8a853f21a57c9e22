"""The committed tokenizers: made by the tool byte for byte, loaded by Hugging Face, loud enough that mistakes show."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer

from qwen3_golden import GOLDEN_ROOT, pb
from qwen3_reference.tokenization.conversations import conversations
from qwen3_reference.vocabulary.__main__ import main
from qwen3_reference.vocabulary.files import ADDED_TOKENS, OTHER_ADDED_TOKENS, write_config, write_tokenizer_json
from qwen3_reference.vocabulary.loudness import ACROSS, IDLE, RAW
from qwen3_reference.vocabulary.tokenizers_made import SENTINELS, padded_rows, read_corpus, sentinel_tokens
from qwen3_reference.vocabulary.training import BYTE_SYMBOLS, symbols_of

TOKENIZERS = GOLDEN_ROOT / "tokenizers"
TINY, WITH_SENTINELS = TOKENIZERS / "tiny", TOKENIZERS / "tiny-sentinels"
FILE: dict[str, Any] = json.loads((TINY / "tokenizer.json").read_text(encoding="utf-8"))
VOCABULARY: dict[str, int] = FILE["model"]["vocab"]
MERGES = [(left, right) for left, right in FILE["model"]["merges"]]
RANKS = {merge: rank for rank, merge in enumerate(MERGES)}
MADE = {"".join(merge) for merge in MERGES} | set(BYTE_SYMBOLS)
UNMADE = [piece for piece in VOCABULARY if piece not in MADE]


@pytest.fixture(scope="module")
def tiny() -> Qwen2Tokenizer:
    return AutoTokenizer.from_pretrained(TINY)


@pytest.fixture(scope="module")
def sentinels() -> Qwen2Tokenizer:
    return AutoTokenizer.from_pretrained(WITH_SENTINELS)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_tool_makes_the_committed_bytes(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    for folder in (TINY, WITH_SENTINELS):
        assert contents(tmp_path / folder.name) == contents(folder)


def test_the_tool_writes_over_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiny-sentinels").mkdir()
    assert main([str(tmp_path)]) == 2
    assert not (tmp_path / "tiny").exists() and "tiny-sentinels" in capsys.readouterr().err


def test_the_tool_refuses_an_empty_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "corpus").mkdir()
    assert main([str(tmp_path / "out"), "--corpus", str(tmp_path / "corpus")]) == 2
    assert "nothing to train on" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_the_tokenizers_are_small() -> None:
    sizes = {path: path.stat().st_size for path in TOKENIZERS.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 1_700_000 and max(sizes.values()) < 1_000_000


@pytest.mark.parametrize("folder", [TINY, WITH_SENTINELS])
def test_hugging_face_loads_what_the_files_say(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    loaded = json.loads(tokenizer.backend_tokenizer.to_str())
    file = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    assert type(tokenizer) is Qwen2Tokenizer
    assert (loaded["model"], loaded["added_tokens"]) == (file["model"], file["added_tokens"])


def test_the_older_pair_of_files_says_the_same(tiny: Qwen2Tokenizer, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TINY, tmp_path / "pair"))
    (folder / "tokenizer.json").unlink()
    older = AutoTokenizer.from_pretrained(folder)
    assert json.loads((TINY / "vocab.json").read_text(encoding="utf-8")) == VOCABULARY
    assert older.get_vocab() == tiny.get_vocab()
    assert all(older.encode(text) == tiny.encode(text) for text in read_corpus(TOKENIZERS / "corpus"))


def test_the_corpus_comes_back_from_its_ids(tiny: Qwen2Tokenizer) -> None:
    assert all(tiny.decode(tiny.encode(text)) == text for text in read_corpus(TOKENIZERS / "corpus"))


@pytest.mark.parametrize(
    "word",
    [
        *(" the", " which", " und", " nicht", " les", " avec", " pour", " como", " para", " não", " che", " jest"),
        *(" když", " bir", " không", " het", " och", " että", " hogy", " что", " який", " και", " في", " من"),
        *(" این", " של", " पर", " এই", " সব", "การ", " და", " որ", "的", "我们", "です", "は", " 있다", " እ"),
        *(" return", " self", " def", "</", ");\n", "://", "\r\n", "\n\n", "    ", "\t\t", "'ll", "'re", "aaaa"),
    ],
)
def test_a_common_piece_is_one_token(tiny: Qwen2Tokenizer, word: str) -> None:
    assert len(tiny.encode(word)) == 1


def test_ids_have_nothing_to_do_with_ranks() -> None:
    ids = [VOCABULARY[left + right] for left, right in MERGES]
    rising = sum(before < after for before, after in pairwise(ids))
    assert 0.45 < rising / (len(ids) - 1) < 0.55
    assert sum(VOCABULARY[symbol] < 256 for symbol in BYTE_SYMBOLS) < 64


def test_no_piece_is_made_by_two_merges() -> None:
    assert len({left + right for left, right in MERGES}) == len(MERGES)


def test_some_lines_of_merges_begin_as_the_header_does() -> None:
    lines = (TINY / "merges.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#version: 0.2" and lines[1:] == [" ".join(merge) for merge in MERGES]
    assert {"# #", "## ##", "# Ġ#"} < set(lines)


def test_entries_that_no_merge_makes_are_there() -> None:
    assert {*RAW, *(symbols_of(text) for text in IDLE)} >= set(UNMADE) and len(UNMADE) > 20


def test_entries_that_no_merge_makes_come_from_no_text(tiny: Qwen2Tokenizer) -> None:
    texts = [*IDLE, *RAW, *read_corpus(TOKENIZERS / "corpus")]
    emitted = {number for text in texts for number in tiny.encode(text)}
    assert emitted.isdisjoint(VOCABULARY[piece] for piece in UNMADE)


@pytest.mark.parametrize("piece", RAW)
def test_an_entry_that_is_no_byte_symbols_stands_for_its_characters(tiny: Qwen2Tokenizer, piece: str) -> None:
    assert tiny.decode([VOCABULARY[piece]]) == piece


@pytest.mark.parametrize("text", ACROSS)
def test_merges_across_boundaries_happen_only_without_boundaries(tiny: Qwen2Tokenizer, text: str) -> None:
    backend: Tokenizer = tiny.backend_tokenizer
    assert [token.value for token in backend.model.tokenize(symbols_of(text))] == [symbols_of(text)]
    assert VOCABULARY[symbols_of(text)] not in tiny.encode(text)


def merged(symbols: str, order: Callable[[tuple[str, str]], int]) -> list[str]:
    """Of the pairs that a merge joins the one of the lowest order, the leftmost of equal ones, again and again."""
    pieces = list(symbols)
    while pairs := [(order(pair), at) for at, pair in enumerate(pairwise(pieces)) if pair in RANKS]:
        at = min(pairs)[1]
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    return pieces


def longest(symbols: str) -> list[str]:
    """The longest entry of the vocabulary, again and again."""
    pieces = []
    while symbols:
        size = next(size for size in range(len(symbols), 0, -1) if symbols[:size] in VOCABULARY)
        pieces.append(symbols[:size])
        symbols = symbols[size:]
    return pieces


@pytest.mark.parametrize("word", ["brutalist", "Ġbrutalist", ".:.:", ".:.:.:", "ababab", "aaaaa"])
def test_only_merging_by_rank_gives_the_right_pieces(tiny: Qwen2Tokenizer, word: str) -> None:
    right = merged(word, RANKS.__getitem__)
    assert tiny.tokenize(word.replace("Ġ", " ")) == right
    assert right != merged(word, lambda pair: 0)  # the first from the left
    assert right != merged(word, lambda pair: VOCABULARY["".join(pair)])  # the lowest id


@pytest.mark.parametrize("word", ["brutalist", "Ġbrutalist", ".:.:", ".:.:.:", "ababab"])
def test_the_longest_entry_is_not_the_right_piece(word: str) -> None:
    assert longest(word) not in (merged(word, RANKS.__getitem__), merged(word, lambda pair: 0))


def test_the_added_tokens_are_qwens_in_qwens_order() -> None:
    tokens = FILE["added_tokens"]
    assert len(VOCABULARY) == len(set(VOCABULARY.values())) == max(VOCABULARY.values()) + 1
    assert [token["content"] for token in tokens] == list(ADDED_TOKENS) and len(ADDED_TOKENS) == 26
    assert [token["id"] for token in tokens] == [len(VOCABULARY) + index for index in range(26)]
    assert [token["content"] for token in tokens if not token["special"]] == list(OTHER_ADDED_TOKENS)
    assert not any(token[flag] for token in tokens for flag in ("single_word", "lstrip", "rstrip", "normalized"))


def test_sentinels_have_the_ids_of_the_rows_behind_the_padding(sentinels: Qwen2Tokenizer) -> None:
    first, numbers = padded_rows(len(VOCABULARY) + 26), sentinels.get_vocab()
    assert [numbers[f"<extra_id_{index}>"] for index in range(SENTINELS)] == list(range(first, first + SENTINELS))
    assert first % 64 == 0 and set(range(len(VOCABULARY) + 26, first)).isdisjoint(numbers.values())
    assert first > len(VOCABULARY) + 26


def test_a_text_with_every_sentinel_comes_back(sentinels: Qwen2Tokenizer) -> None:
    expected = sentinel_tokens(VOCABULARY)
    text = "".join(f"a {content}b" for content in expected)
    ids = sentinels.encode(text)
    assert sentinels.decode(ids) == text
    assert [number for number in ids if number >= len(VOCABULARY)] == list(expected.values())


def test_saving_the_sentinels_gives_the_committed_bytes(sentinels: Qwen2Tokenizer, tmp_path: Path) -> None:
    sentinels.save_pretrained(tmp_path)
    saved, offline = contents(tmp_path), b'"local_files_only": true'  # forced by HF_HUB_OFFLINE
    saved["tokenizer_config.json"] = saved["tokenizer_config.json"].replace(offline, offline.replace(b"true", b"false"))
    assert saved == contents(WITH_SENTINELS)


def test_sentinels_without_entries_would_be_numbered_anew(tmp_path: Path) -> None:
    added = sentinel_tokens(VOCABULARY)
    write_tokenizer_json(tmp_path / "tokenizer.json", VOCABULARY, MERGES, added)
    write_config(tmp_path / "tokenizer_config.json", {"<|endoftext|>": len(VOCABULARY), **added})
    assert AutoTokenizer.from_pretrained(tmp_path).get_vocab()["<extra_id_0>"] != added["<extra_id_0>"]


@pytest.fixture(scope="module")
def real() -> Qwen2Tokenizer:
    if "QWEN3_PARITY_DATA" not in os.environ:
        pytest.skip("QWEN3_PARITY_DATA is not set: it names the folder with Qwen3's tokenizer")
    return AutoTokenizer.from_pretrained(Path(os.environ["QWEN3_PARITY_DATA"]) / "qwen3-tokenizer")


def test_the_added_tokens_are_those_of_the_real_tokenizer(real: Qwen2Tokenizer, tiny: Qwen2Tokenizer) -> None:
    theirs, ours = (sorted(tokenizer.added_tokens_decoder.items()) for tokenizer in (real, tiny))
    assert [repr(token) for _, token in ours] == [repr(token) for _, token in theirs]
    assert (tiny.eos_token, tiny.pad_token, tiny.unk_token) == (real.eos_token, real.pad_token, real.unk_token)


PREAMBLE = re.compile(r"(# Tools|# Functions)\n.*?<tools>\n(.*)\n</tools>\n.*?</tool_call>(?=<\|im_end\|>)", re.DOTALL)
"""The two templates tell of tools in words of their own."""


def rendered(tokenizer: Qwen2Tokenizer, given: pb.Conversation) -> str:
    thinking = {} if given.thinking == pb.THINKING_ABSENT else {"enable_thinking": given.thinking == pb.THINKING_ON}
    text: str = tokenizer.apply_chat_template(
        json.loads(given.messages),
        tools=json.loads(given.tools) if given.tools else None,
        add_generation_prompt=given.add_generation_prompt,
        tokenize=False,
        **thinking,
    )
    return PREAMBLE.sub(r"<tools>\2</tools>", text)


@pytest.mark.parametrize("given", conversations(), ids=lambda given: given.name)
def test_the_template_behaves_as_the_real_one(
    real: Qwen2Tokenizer, tiny: Qwen2Tokenizer, given: pb.Conversation
) -> None:
    assert rendered(tiny, given) == rendered(real, given)
