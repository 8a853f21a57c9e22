"""What is read from a tokenizer's directory, beside what Hugging Face reads; and every bad file is one error."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer, Qwen2Tokenizer

from qwen3_encdec.tokenizer.byte_symbols import SYMBOLS
from qwen3_encdec.tokenizer.files import QWEN_PATTERN, read_directory, read_merges
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer
from qwen3_encdec.tokenizer.tokenizer_json import GPT2_PATTERN

MERGES = [("a", "b"), ("#", "#"), ("ab", "c")]
TEXT = "abc ##a\n\n don't <e>12 abcab"


def vocabulary() -> dict[str, int]:
    pieces = [*reversed(SYMBOLS), *(left + right for left, right in MERGES)]
    return {piece: id for id, piece in enumerate(pieces)}


def tokenizer_json() -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": QWEN_PATTERN}, "behavior": "Isolated", "invert": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": 259, "content": "<e>", **flags}],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary(), "merges": [list(pair) for pair in MERGES]},
    }


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def json_folder(tmp_path: Path) -> Path:
    write_json(tmp_path / "tokenizer.json", tokenizer_json())
    return tmp_path


@pytest.fixture
def pair_folder(tmp_path: Path) -> Path:
    """vocab.json, merges.txt and a tokenizer_config.json."""
    write_json(tmp_path / "vocab.json", vocabulary())
    lines = ["#version: 0.2", *(" ".join(pair) for pair in MERGES)]
    (tmp_path / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<e>"})
    return tmp_path


def ids(folder: Path) -> list[int]:
    return ByteLevelTokenizer.from_directory(folder).encode(TEXT)


def edit(path: Path, change: Callable[[Any], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    write_json(path, content)


def test_a_tokenizer_json_is_read_as_the_library_reads_it(json_folder: Path) -> None:
    assert ids(json_folder) == Tokenizer.from_file(str(json_folder / "tokenizer.json")).encode(TEXT).ids


def test_merges_as_strings_are_the_same(json_folder: Path) -> None:
    expected = read_directory(json_folder)
    edit(json_folder / "tokenizer.json", lambda file: file["model"].update(merges=["a b", "# #", "ab c"]))
    assert read_directory(json_folder) == expected


def test_a_literal_pattern_is_said_to_be_one(json_folder: Path) -> None:
    edit(
        json_folder / "tokenizer.json",
        lambda file: file["pre_tokenizer"]["pretokenizers"][0].update(pattern={"String": "b|a"}),
    )
    files = read_directory(json_folder)
    assert (files.pattern, files.pattern_is_literal) == ("b|a", True)


def test_byte_level_alone_splits_by_its_own_pattern(json_folder: Path) -> None:
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    edit(json_folder / "tokenizer.json", lambda file: file.update(pre_tokenizer=step))
    assert read_directory(json_folder).pattern == GPT2_PATTERN
    assert ids(json_folder) == Tokenizer.from_file(str(json_folder / "tokenizer.json")).encode(TEXT).ids


@pytest.mark.parametrize(
    ("normalizer", "name"),
    [(None, ""), ({"type": "NFC"}, "NFC"), ({"type": "Sequence", "normalizers": [{"type": "NFC"}]}, "NFC")],
)
def test_a_normalizer_is_nfc_or_none(json_folder: Path, normalizer: object, name: str) -> None:
    edit(json_folder / "tokenizer.json", lambda file: file.update(normalizer=normalizer))
    assert read_directory(json_folder).normalizer == name


@pytest.mark.parametrize(
    "config",
    [
        {"eos_token": "<e>"},
        {},
        {"eos_token": {"content": "<e>", "__type": "AddedToken"}, "pad_token": None, "padding_side": "left"},
        {"eos_token": "<e>", "added_tokens_decoder": {"259": {"content": "<e>", "lstrip": True, "special": False}}},
        {"added_tokens_decoder": {"259": {"content": "<e>", "lstrip": True, "special": True}}},
        {"eos_token": "ab", "additional_special_tokens": ["<x>", "<y>"]},
        {"extra_special_tokens": ["<y>"], "additional_special_tokens": ["<x>"], "some_token": "<z>"},
    ],
)
def test_vocab_and_merges_alone_are_read_as_qwen2_tokenizer_reads_them(
    pair_folder: Path, config: dict[str, Any]
) -> None:
    write_json(pair_folder / "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", **config})
    theirs, files = AutoTokenizer.from_pretrained(pair_folder), read_directory(pair_folder)
    added = {
        id: (token.content, token.special, token.lstrip, token.normalized)
        for id, token in theirs.added_tokens_decoder.items()
    }
    assert added == {
        token.id: (token.content, token.special, token.lstrip, token.normalized) for token in files.added_tokens
    }
    for role in ("pad_token", "eos_token", "bos_token", "unk_token"):
        assert getattr(files, role) == getattr(theirs, role), role
    assert (files.padding_side, files.truncation_side) == (theirs.padding_side, theirs.truncation_side)
    assert ids(pair_folder) == theirs.encode(TEXT)


def test_without_a_config_they_are_a_qwen2_tokenizer_by_default(pair_folder: Path) -> None:
    (pair_folder / "tokenizer_config.json").unlink()
    theirs, files = Qwen2Tokenizer.from_pretrained(pair_folder), read_directory(pair_folder)
    assert {token.id: token.content for token in files.added_tokens} == {259: "<|endoftext|>"}
    assert (files.eos_token, files.pad_token) == (theirs.eos_token, theirs.pad_token)
    assert ids(pair_folder) == theirs.encode(TEXT)


def test_only_the_first_line_is_a_header(tmp_path: Path) -> None:
    (tmp_path / "merges.txt").write_text("#version: 0.2\n# #\n#v e\n", encoding="utf-8")
    assert read_merges(tmp_path / "merges.txt") == [("#", "#"), ("#v", "e")]


def test_merges_without_a_header_or_with_carriage_returns_are_read(tmp_path: Path) -> None:
    (tmp_path / "merges.txt").write_bytes(b"# #\r\na b\r\n")
    assert read_merges(tmp_path / "merges.txt") == [("#", "#"), ("a", "b")]


def test_the_committed_files_say_the_same_in_both_forms(tiny: Path, tmp_path: Path) -> None:
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(tiny / name, tmp_path)
    both, separate = read_directory(tiny), read_directory(tmp_path)
    assert (separate.merges, separate.added_tokens, separate.pattern) == (both.merges, both.added_tokens, both.pattern)
    assert separate.chat_template == both.chat_template is not None


@pytest.mark.slow
def test_the_real_files_say_the_same_in_both_forms(real: Path, tmp_path: Path) -> None:
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(real / name, tmp_path)
    assert read_directory(tmp_path) == read_directory(real)
