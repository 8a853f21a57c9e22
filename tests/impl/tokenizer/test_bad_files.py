"""Bad files of a tokenizer: one error each, which says what is wrong and where."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qwen3_encdec.tokenizer.byte_symbols import SYMBOLS
from qwen3_encdec.tokenizer.errors import TokenizerError
from qwen3_encdec.tokenizer.files import QWEN_PATTERN, read_directory

PIECES = {piece: id for id, piece in enumerate([*SYMBOLS, "ab", "abc"])}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
SPLIT = {"type": "Split", "pattern": {"Regex": QWEN_PATTERN}, "behavior": "Isolated", "invert": False}


def good() -> dict[str, Any]:
    return {
        "added_tokens": [{"id": 258, "content": "<e>", "special": True}],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [dict(SPLIT), dict(BYTE_LEVEL)]},
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": dict(PIECES), "merges": [["a", "b"], ["ab", "c"]]},
    }


def refused(folder: Path, message: str) -> None:
    """One error that names what is in `message`, each part of which is a regex, in this order."""
    with pytest.raises(TokenizerError, match=message) as raised:
        read_directory(folder)
    assert all(f"\n  {part}" in str(raised.value) for part in ("expected: ", "got:      ", "next:     "))


def test_the_file_that_the_others_are_spoilt_from_is_read(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(good()), encoding="utf-8")
    assert len(read_directory(tmp_path).merges) == 2


def step(file: dict[str, Any], index: int, **settings: object) -> None:
    file["pre_tokenizer"]["pretokenizers"][index].update(settings)


SPOILT: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "two pieces with one id": (lambda f: f["model"]["vocab"].update(abc=256), r"(?s)id belongs to one.*'ab' and 'abc'"),
    "negative id": (lambda f: f["model"]["vocab"].update(abc=-1), r"(?s)whole number.*-1 for 'abc'"),
    "fraction as id": (lambda f: f["model"]["vocab"].update(abc=1.5), r"(?s)whole number.*1\.5 for 'abc'"),
    "true as id": (lambda f: f["model"]["vocab"].update(abc=True), r"(?s)whole number.*True for 'abc'"),
    "no byte symbol": (lambda f: f["model"]["vocab"].pop("Ġ"), r"(?s)every byte.*0x20"),
    "no vocabulary": (lambda f: f["model"].pop("vocab"), r"(?s)model\.vocab: a vocabulary maps.*NoneType"),
    "missing left piece": (lambda f: f["model"]["merges"].append(["xx", "c"]), r"(?s)merges\[2\].*left piece 'xx'"),
    "missing right piece": (lambda f: f["model"]["merges"].append(["c", "xx"]), r"(?s)merges\[2\].*right piece 'xx'"),
    "missing result": (lambda f: f["model"]["merges"].append(["c", "c"]), r"(?s)merges\[2\].*result 'cc'"),
    "merge twice": (lambda f: f["model"]["merges"].append("a b"), r"(?s)merges\[2\]: a merge has one.*merges\[0\]"),
    "merge of three": (lambda f: f["model"]["merges"].append("a b c"), r"(?s)merges\[2\].*'a b c'"),
    "merge of numbers": (lambda f: f["model"]["merges"].append([1, 2]), r"(?s)merges\[2\].*\[1, 2\]"),
    "no merges": (lambda f: f["model"].pop("merges"), r"model\.merges"),
    "unigram": (lambda f: f["model"].update(type="Unigram"), r"(?s)model, type.*'Unigram'"),
    "dropout": (lambda f: f["model"].update(dropout=0.1), r"(?s)model, dropout.*0\.1"),
    "byte fallback": (lambda f: f["model"].update(byte_fallback=True), r"(?s)model, byte_fallback.*True"),
    "ignored merges": (lambda f: f["model"].update(ignore_merges=True), r"(?s)model, ignore_merges.*True"),
    "prefix": (lambda f: f["model"].update(continuing_subword_prefix="##"), r"(?s)continuing_subword_prefix.*'##'"),
    "suffix": (lambda f: f["model"].update(end_of_word_suffix="</w>"), r"(?s)end_of_word_suffix.*'</w>'"),
    "truncation": (lambda f: f.update(truncation={"max_length": 3}), r"(?s)truncation.*max_length"),
    "padding": (lambda f: f.update(padding={"direction": "Left"}), r"(?s)padding.*Left"),
    "no decoder": (lambda f: f.pop("decoder"), r"decoder"),
    "template": (lambda f: f.update(post_processor={"type": "TemplateProcessing"}), r"(?s)post_proc.*TemplateProc"),
    "trimmed offsets": (lambda f: f.update(post_processor={**BYTE_LEVEL, "trim_offsets": True}), r"trim_offsets"),
    "other normalizer": (lambda f: f.update(normalizer={"type": "NFKC"}), r"(?s)normalizer, type.*'NFKC'"),
    "second normalizer": (
        lambda f: f.update(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}),
        r"(?s)normalizer, type.*'Lowercase'",
    ),
    "no pre-tokenizer": (lambda f: f.update(pre_tokenizer=None), r"(?s)pre_tokenizer.*None"),
    "other pre-tokenizer": (lambda f: f.update(pre_tokenizer={"type": "Metaspace"}), r"(?s)pre_tokenizer.*Metaspace"),
    "prefix space": (lambda f: step(f, 1, add_prefix_space=True), r"(?s)add_prefix_space.*True"),
    "two patterns": (lambda f: step(f, 1, use_regex=True), r"(?s)one pattern.*use_regex True"),
    "removed matches": (lambda f: step(f, 0, behavior="Removed"), r"(?s)behavior.*'Removed'"),
    "inverted split": (lambda f: step(f, 0, invert=True), r"(?s)invert.*True"),
    "unknown pattern": (lambda f: step(f, 0, pattern={"Glob": "*"}), r"(?s)pattern.*Glob"),
    "taken id": (lambda f: f["added_tokens"][0].update(id=257), r"(?s)'<e>'.*id 258.*257, which is 'abc''s"),
    "id over a gap": (lambda f: f["added_tokens"][0].update(id=300), r"(?s)'<e>'.*id 258.*id 300"),
    "negative added id": (lambda f: f["added_tokens"][0].update(id=-3), r"(?s)added_tokens\[0\].*id -3"),
    "added token without text": (lambda f: f["added_tokens"][0].update(content=""), r"(?s)added_tokens\[0\].*''"),
    "flag that is none": (lambda f: f["added_tokens"][0].update(lstrip="no"), r"(?s)added_tokens\[0\].*lstrip.*'no'"),
    "added token twice": (lambda f: f["added_tokens"].append({"id": 259, "content": "<e>"}), r"(?s)'<e>'.*once"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_tokenizer_json_is_refused(tmp_path: Path, name: str) -> None:
    change, message = SPOILT[name]
    content = good()
    change(content)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    refused(tmp_path, message)


def test_a_truncated_tokenizer_json_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    whole = json.dumps(good(), ensure_ascii=False)
    for end in [0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1]:
        (tmp_path / "tokenizer.json").write_text(whole[:end], encoding="utf-8")
        refused(tmp_path, rf"(?s)tokenizer\.json, line 1, column \d+ \(character \d+ of {end}\).*cut off")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"model": {"vocab": {"a": 1, "b": 2, "a": 3}}}', r"(?s)a key stands once.*'a'.*value 3"),
        (b'{"model": "\xff"}', r"(?s)byte 11: the file is UTF-8.*xff"),
        ("{}".encode("utf-16"), r"byte 0: the file is UTF-8"),
        (b"[1]", r"(?s)JSON object.*list"),
        (b"[" * 100_000, r"the file is JSON"),
        (b'{"model": "\\ud800"}', r"(?s)whole characters.*U\+D800"),
        (b"{}", r"(?s)model.*None"),
    ],
)
def test_what_is_no_tokenizer_json_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(data)
    refused(tmp_path, message)


@pytest.mark.parametrize(
    ("merges", "message"),
    [
        ("#version: 0.2\na b\nab\n", r"(?s)merges\.txt, line 3: a line is a merge.*'ab'"),
        ("#version: 0.2\na b\n\nab c\n", r"(?s)merges\.txt, line 3: a line is a merge.*''"),
        ("#version: 0.2\n#version 0.3\n", r"merges\.txt, line 2: a line is a merge"),
        ("#version: 0.2\na b\nxx c\n", r"(?s)merges\.txt, line 3: .*left piece 'xx'"),
        ("a b\nxx c\n", r"(?s)merges\.txt, line 2: .*left piece 'xx'"),
        ("#version: 0.2\na b\na b\n", r"(?s)merges\.txt, line 3: .*one rank.*line 2"),
    ],
)
def test_spoilt_merges_are_refused_with_their_line(tmp_path: Path, merges: str, message: str) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps(PIECES), encoding="utf-8")
    (tmp_path / "merges.txt").write_text(merges, encoding="utf-8")
    refused(tmp_path, message)


def test_files_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(good()), encoding="utf-8")
    (tmp_path / "vocab.json").write_text(json.dumps(PIECES | {"ab": 257, "abc": 256}), encoding="utf-8")
    refused(tmp_path, r"(?s)vocab\.json: it agrees with tokenizer\.json.*id 256 for 'ab'.*id 257")
    (tmp_path / "vocab.json").unlink()
    (tmp_path / "merges.txt").write_text("a b\n", encoding="utf-8")
    refused(tmp_path, r"(?s)merges\.txt: it agrees with tokenizer\.json.*2 merges")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"added_tokens_decoder": {}}, r"(?s)it agrees with tokenizer\.json.*<e>.*None"),
        ({"added_tokens_decoder": {"x": {"content": "<e>"}}}, r"(?s)added_tokens_decoder.*ids as keys.*'x'"),
        ({"eos_token": 3}, r"(?s)eos_token.*a text or null.*3"),
        ({"padding_side": "top"}, r"(?s)padding_side.*'top'"),
        ({"chat_template": 1}, r"chat_template"),
        ({"extra_special_tokens": [1]}, r"extra_special_tokens"),
    ],
)
def test_a_spoilt_tokenizer_config_is_refused(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(good()), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    refused(tmp_path, message)


def test_another_pattern_than_that_of_its_class_is_refused(tmp_path: Path) -> None:
    content = good()
    step(content, 0, pattern={"Regex": r"\s+"})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}', encoding="utf-8")
    refused(tmp_path, r"(?s)tokenizer\.json: it agrees with tokenizer_config\.json.*Qwen2Tokenizer's pattern")


def test_other_classes_than_qwens_need_a_tokenizer_json(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps(PIECES), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("a b\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}', encoding="utf-8")
    refused(tmp_path, r"(?s)Qwen2Tokenizer.*GPT2Tokenizer")


def test_a_directory_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, r"(?s)the directory has a tokenizer.*an empty directory")
    (tmp_path / "vocab.json").write_text(json.dumps(PIECES), encoding="utf-8")
    refused(tmp_path, r"(?s)the directory has a tokenizer.*vocab\.json")
    refused(tmp_path / "nowhere", r"no such directory")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")

    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("qwen3_encdec.tokenizer.json_files.open_inside", denied)
    refused(tmp_path, r"(?s)tokenizer\.json: the file can be read.*Permission denied")


@pytest.mark.parametrize("digits", [20, 5000])
def test_a_number_of_too_many_digits(digits: int, tmp_path: Path) -> None:
    text = json.dumps(good()).replace('"id": 258', f'"id": {"7" * digits}')
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    refused(tmp_path, f"(?s)fits into 64 bits.*{digits} digits")
