"""The diagnosis of tokenizers: honest recordings are free of faults, and each fault is blamed where it is.

It runs `text.blame`, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console
from tokenizers import Regex, normalizers, pre_tokenizers

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read, write
from qwen3_parity.cli import main
from qwen3_parity.diagnosis.text import TokenDiagnosis, diagnose_tokenization, directory_of
from qwen3_parity.report import text_diagnoses as pages
from qwen3_reference.tokenization.recorded import ReferenceTokenizer, load_tokenizer, tokenize

CASES = sorted((GOLDEN_ROOT / "cases" / "tokenization").glob("*.pb"))
DIGITS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def golden(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / "tokenization" / f"{name}.pb")


def copied(recording: Recording) -> Recording:
    tokenization = pb.Tokenization()
    tokenization.CopyFrom(recording.tokenization)
    return replace(recording, tokenization=tokenization, source="candidate.pb")


def diagnosed(expected: Recording, candidate: Recording) -> TokenDiagnosis:
    return diagnose_tokenization(expected, candidate, directory_of(expected, None))


def remade(expected: Recording, change: Callable[[ReferenceTokenizer], None]) -> Recording:
    """A recording of Hugging Face's tokenizer with one of its parts replaced."""
    reference = load_tokenizer(directory_of(expected, None))
    change(reference)
    return replace(expected, tokenization=tokenize(reference, expected.tokenization), source="candidate.pb")


def digits_by_three(reference: ReferenceTokenizer) -> None:
    split = pre_tokenizers.Split(Regex(DIGITS), "isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    reference.backend.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_])


def shown(diagnosis: TokenDiagnosis) -> str:
    console = Console(width=400, record=True)
    with console.capture() as capture:
        console.print(pages.terminal(diagnosis))
    return capture.get()


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_golden_has_no_fault(path: Path) -> None:
    expected = read(path)
    diagnosis = diagnosed(expected, copied(expected))
    assert not diagnosis.faults and diagnosis.verdicts.exit_code == 0
    assert diagnosis.alone and all(verdict.is_right for verdict in diagnosis.alone)


def test_there_are_goldens() -> None:
    assert len(CASES) >= 10


def test_a_wrong_stage_alone_is_blamed() -> None:
    expected = golden("numbers")
    candidate = remade(expected, digits_by_three)
    diagnosis = diagnosed(expected, candidate)
    assert [(fault.stage, fault.name) for fault in diagnosis.faults] == [("pre_tokens", "pre_tokens.digits_by_three")]


def test_a_fault_hides_no_later_one() -> None:
    expected = golden("unicode")
    candidate = copied(remade(expected, lambda tokenizer: setattr(tokenizer.backend, "normalizer", normalizers.NFKC())))
    for encoding in candidate.tokenization.encoding:
        for segment in encoding.segment:
            for piece in segment.pre_token:
                piece.id[:] = [number + 1 for number in piece.id]
        encoding.id[:] = [number for segment in encoding.segment for piece in segment.pre_token for number in piece.id]
    names = [(fault.stage, fault.name) for fault in diagnosed(expected, candidate).faults]
    assert names == [("normalized", "normalized.nfkc"), ("ids", "ids.shifted")]


def test_stages_that_are_not_told_join_the_next() -> None:
    expected = golden("numbers")
    remade_one = remade(expected, digits_by_three)
    run = pb.Run()
    run.CopyFrom(expected.run)
    run.materialised[:] = ["ids"]
    bare = pb.Tokenization(
        encoding=[
            pb.Encoding(
                name=encoding.name,
                text=encoding.text,
                split_special_tokens=encoding.split_special_tokens,
                id=encoding.id,
            )
            for encoding in remade_one.tokenization.encoding
        ]
    )
    (fault,) = diagnosed(expected, replace(expected, run=run, tokenization=bare, source="candidate.pb")).faults
    assert fault.stage == "ids" and fault.others[0] == "segments" and fault.others[-1] == "merges"
    assert fault.name == "pre_tokens.digits_by_three"


def test_a_mistake_of_an_encoding_is_named_where_a_batch_shows_it() -> None:
    expected = golden("batches")
    candidate = remade(expected, lambda tokenizer: setattr(tokenizer.backend, "pre_tokenizer", _whole()))
    (fault,) = diagnosed(expected, candidate).faults
    assert fault.stage == "batch" and fault.name == "pre_tokens.missing"


def _whole() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def test_what_no_mistake_explains_is_told_as_such() -> None:
    expected = golden("words")
    candidate = copied(expected)
    candidate.tokenization.encoding[3].segment[0].normalized = "no such text"
    fault = diagnosed(expected, candidate).faults[0]
    assert fault.stage == "normalized" and fault.name == ""
    assert "no known mistake" in "\n".join(pages.lines(fault))


def test_the_page_says_how_many_texts_a_mistake_reproduces() -> None:
    expected = golden("numbers")
    text = shown(diagnosed(expected, remade(expected, digits_by_three)))
    assert "groups digits by three" in text and "fix: " in text
    assert "reproduces your pre-tokens in" in text


def test_the_command_prints_json_and_exits_with_the_verdict(tmp_path: Path) -> None:
    expected = golden("numbers")
    path = tmp_path / "candidate.pb"
    write(path, remade(expected, digits_by_three))
    result = CliRunner().invoke(main, ["diagnose", expected.source, str(path), "--json"])
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert data["faults"][0]["explanations"][0]["name"] == "pre_tokens.digits_by_three"


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ParityError, match="another tokenizer"):
        directory_of(golden("words"), tmp_path)


def test_a_tokenizer_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="not here"):
        directory_of(golden("words"), None, tmp_path)
