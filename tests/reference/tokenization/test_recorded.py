"""The recorder of tokenization: stages that agree, the same bytes twice, flags of added tokens, and what it refuses."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read, verify
from qwen3_reference.__main__ import main
from qwen3_reference.tokenization.cases import TOKENIZATION_CASES, TokenizationCase
from qwen3_reference.tokenization.recorded import ReferenceTokenizer, load_tokenizer, record_tokenization, tokenize
from qwen3_reference.tokenization.stages import encoding

TOKENIZERS = GOLDEN_ROOT / "tokenizers"
CASES = {definition.name.partition("/")[2]: definition for definition in TOKENIZATION_CASES}


@cache
def tiny() -> ReferenceTokenizer:
    return load_tokenizer(TOKENIZERS / "tiny")


@cache
def real() -> ReferenceTokenizer:
    data = os.environ.get("QWEN3_PARITY_DATA")
    if not data:
        pytest.skip("QWEN3_PARITY_DATA is not set: no real Qwen3 tokenizer")
    return load_tokenizer(Path(data) / "qwen3-tokenizer")


def saved(directory: Path, *added: AddedToken) -> ReferenceTokenizer:
    """The committed tokenizer with more added tokens, saved and loaded by Hugging Face."""
    tokenizer = load_tokenizer(TOKENIZERS / "tiny").tokenizer
    tokenizer.add_tokens(list(added))
    tokenizer.save_pretrained(directory)
    return load_tokenizer(directory)


def spans(reference: ReferenceTokenizer, text: str, split: bool = False) -> list[str]:
    """The segments' characters, added tokens in brackets."""
    segments = encoding(reference, pb.Encoding(name="here", text=text, split_special_tokens=split)).segment
    return [f"[{text[s.begin : s.end]}]" if s.HasField("added_token") else text[s.begin : s.end] for s in segments]


@pytest.mark.parametrize("theme", ["words", "decoding", "sentinels"])
def test_a_tokenization_gives_the_same_bytes_twice(tmp_path: Path, theme: str) -> None:
    for copy in ("a.pb", "b.pb"):
        record_tokenization(CASES[theme], TOKENIZERS, tmp_path / copy)
    assert (tmp_path / "a.pb").read_bytes() == (tmp_path / "b.pb").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pb", "b.pb"]


def test_a_recording_has_exactly_the_stages_of_what_was_given(tmp_path: Path) -> None:
    message = pb.Tokenization(decoding=[pb.Decoding(name="one", id=[1])], batch=[])
    definition = TokenizationCase("tokenization/here", "One id.", ("TKB-05",), lambda _: message)
    record_tokenization(definition, TOKENIZERS, tmp_path / "here.pb")
    recording = read(tmp_path / "here.pb")
    verify(recording)
    assert list(recording.run.materialised) == ["pieces", "decoded", "chunks"]
    assert recording.case.checkpoint[0].role == "tokenizer"


def test_what_is_given_is_not_changed() -> None:
    message = CASES["words"].message_of(tiny())
    before = pb.Tokenization()
    before.CopyFrom(message)
    tokenize(tiny(), message)
    assert message == before


def test_a_batch_leaves_nothing_behind() -> None:
    message = pb.Tokenization(encoding=[pb.Encoding(name="one", text="word")])
    before = tokenize(tiny(), message)
    side = tiny().tokenizer.truncation_side
    cut = [
        batch
        for batch in CASES["batches"].message_of(tiny()).batch
        if batch.max_length and batch.truncation_side != side
    ]
    assert tokenize(tiny(), pb.Tokenization(batch=cut)).batch[-1].row
    assert tokenize(tiny(), message) == before
    assert tiny().tokenizer.truncation_side == side


def test_lstrip_and_rstrip_take_white_space_along(tmp_path: Path) -> None:
    left, right = AddedToken("<L>", lstrip=True, normalized=False), AddedToken("<R>", rstrip=True, normalized=False)
    reference = saved(tmp_path, left, right)
    assert spans(reference, "a  <L>  b\n<R> \n c") == ["a", "[  <L>]", "  b\n", "[<R> \n ]", "c"]


def test_a_single_word_is_not_found_inside_another(tmp_path: Path) -> None:
    reference = saved(tmp_path, AddedToken("<W>", single_word=True, normalized=False))
    assert spans(reference, "a<W> <W> b") == ["a<W> ", "[<W>]", " b"]


def test_split_special_tokens_still_finds_added_tokens_that_are_not_special() -> None:
    assert spans(tiny(), "<|im_end|><think>") == ["[<|im_end|>]", "[<think>]"]
    assert spans(tiny(), "<|im_end|><think>", split=True) == ["<|im_end|>", "[<think>]"]


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="no such directory"):
        record_tokenization(replace(CASES["words"], tokenizer="none"), tmp_path, tmp_path / "out.pb")
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="Hugging Face cannot load it"):
        load_tokenizer(tmp_path)


def test_another_class_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n[SEP]\n[PAD]\n[CLS]\n[MASK]\na\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}', encoding="utf-8")
    with pytest.raises(ParityError, match=r"another class\n  expected: Qwen2Tokenizer\n  got:      BertTokenizer"):
        load_tokenizer(tmp_path)


def test_another_model_is_refused(tmp_path: Path) -> None:
    Tokenizer(WordLevel({"a": 0}, unk_token="a")).save(str(tmp_path / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ParityError, match=r"its model is of another kind\n  expected: BPE\n  got:      WordLevel"):
        load_tokenizer(tmp_path)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    tiny().tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(ParityError, match="Hugging Face cannot load it"):
        load_tokenizer(tmp_path)


def test_a_vocabulary_without_one_of_the_bytes_is_refused(tmp_path: Path) -> None:
    tiny().tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    del settings["model"]["vocab"]["ÿ"]
    file.write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(ParityError, match=r"lacks bytes(.|\n)*none of \['ÿ'\]"):
        load_tokenizer(tmp_path)


def test_an_added_token_that_merges_make_is_refused(tmp_path: Path) -> None:
    left, right = tiny().merges.pairs[0]
    with pytest.raises(ParityError, match="merges give the id of an added token"):
        saved(tmp_path, AddedToken(left + right, normalized=False))


def test_the_command_line_records_by_name_and_refuses_without_tokenizers(tmp_path: Path) -> None:
    assert main([str(tmp_path), "--only", "tokenization/words"]) == 0
    assert [path.name for path in tmp_path.rglob("*.pb")] == ["words.pb"]
    assert main([str(tmp_path), "--only", "tokenization/words", "--tokenizers", str(tmp_path)]) == 2


@pytest.mark.parametrize("theme", ["words", "unicode", "special_tokens"])
def test_the_real_tokenizers_parts_agree_with_the_whole(theme: str) -> None:
    recorded = tokenize(real(), CASES[theme].message_of(real()))
    assert {item.name: list(item.id) for item in recorded.encoding}.get("hello", [9707]) == [9707]
