"""The commands on tokenization: recording, judging, one's own text; what they refuse and what they exit with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, STAGES, ParityError, pb, read, write
from qwen3_parity.cli import main
from qwen3_parity.recording.text import record_tokenization, recorded, tokenizer_directory
from qwen3_parity.text.ours import Ours, ours, read_tokenizer

CASES = GOLDEN_ROOT / "cases" / "tokenization"
TINY = GOLDEN_ROOT / "tokenizers" / "tiny"
TEXT = "Hello, don't 12\u00e9"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_recording_our_tokenizer_and_checking_it_is_parity(tmp_path: Path) -> None:
    assert run("record", "tokenization/words", "--out", tmp_path / "c.pb").exit_code == 0
    result = run("check", tmp_path / "c.pb")
    assert result.exit_code == 0 and "stages compared (100 %)" in result.output


def test_somebody_elses_tokenizer_is_recorded_with_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_tokenizer.py").write_text(SOMEBODY)
    monkeypatch.syspath_prepend(str(tmp_path))
    out = tmp_path / "c.pb"
    assert run("record", "tokenization/words", "--impl", "my_tokenizer:factory", "--out", out).exit_code == 0
    assert list(read(out).run.materialised) == ["ids"]
    result = run("check", out, "--json")
    verdicts = json.loads(result.output)
    assert result.exit_code == 0 and 0 < verdicts["compared"] < verdicts["of"]


SOMEBODY = """
from qwen3_golden import pb
from tokenizers import Tokenizer

class Runner:
    run = pb.Run(materialised=["ids"])

    def __init__(self, directory):
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))

    def encoding(self, given):
        out = pb.Encoding()
        out.CopyFrom(given)
        out.id.extend(self.tokenizer.encode(given.text, add_special_tokens=False).ids)
        return out

def factory(case, directory):
    return Runner(directory)
"""


def test_a_runner_that_changes_what_it_was_given_is_refused() -> None:
    class Stripping(Ours):
        def encoding(self, message: pb.Encoding) -> pb.Encoding:
            out = super().encoding(message)
            out.text = out.text.strip()
            return out

    with pytest.raises(ParityError, match="given"):
        recorded(read(CASES / "words.pb"), TINY, lambda case, directory: Stripping(read_tokenizer(directory)))


def test_a_runner_that_fails_leaves_no_file_and_says_where(tmp_path: Path) -> None:
    class Failing(Ours):
        def encoding(self, message: pb.Encoding) -> pb.Encoding:
            raise ZeroDivisionError("no ids")

    with pytest.raises(ParityError, match="ZeroDivisionError: no ids"):
        record_tokenization(
            read(CASES / "words.pb"), tmp_path / "c.pb", lambda case, directory: Failing(read_tokenizer(directory))
        )
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_with_other_files_is_not_recorded(tmp_path: Path) -> None:
    for path in TINY.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes() + b"\n" * (path.name == "merges.txt"))
    result = run("record", "tokenization/words", "--model", tmp_path, "--out", tmp_path / "c.pb")
    assert result.exit_code == 2 and "SHA-256" in result.output and not (tmp_path / "c.pb").exists()


def test_a_tokenizer_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="--model"):
        tokenizer_directory(read(CASES / "words.pb").case, tmp_path)


def test_parity_runs_the_tokenizer_too(tmp_path: Path) -> None:
    result = run("parity", "--only", "tokenization/words", "--out", tmp_path)
    assert result.exit_code == 0 and (tmp_path / "tokenization" / "words.pb").is_file()
    assert "all equal" in result.output and "stages of texts compared" in result.output


def test_ones_own_text_is_compared_with_hugging_face_in_one_go() -> None:
    result = run("check", "--tokenizer", TINY, "--text", TEXT, "--text", "<|im_start|>x", "-v")
    assert result.exit_code == 0, result.output
    assert "parity" in result.output and "Hello|,| don|'t| |1|2|\\xe9" in result.output


def test_ones_own_text_becomes_a_golden_that_is_recorded_checked_and_diagnosed(tmp_path: Path) -> None:
    golden, candidate = tmp_path / "g.pb", tmp_path / "c.pb"
    assert run("check", "--tokenizer", TINY, "--text", TEXT, "--out", golden).exit_code == 0
    assert run("record", golden, "--model", TINY, "--out", candidate).exit_code == 0
    assert run("check", golden, candidate).exit_code == 0
    spoilt = read(candidate)
    del spoilt.tokenization.encoding[0].id[0]
    write(tmp_path / "wrong.pb", spoilt)
    wrong = run("check", golden, tmp_path / "wrong.pb", "--model", TINY, "--json").output
    assert f"diagnose {golden} {tmp_path / 'wrong.pb'} --model {TINY}" in wrong
    assert run("diagnose", golden, candidate, "--model", TINY).exit_code == 0


def test_a_difference_from_hugging_face_on_ones_own_text_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(Ours):
        def encoding(self, message: pb.Encoding) -> pb.Encoding:
            self.tokenizer.normalize = str
            return super().encoding(message)

    monkeypatch.setattr("qwen3_parity.text.ours.Ours", Deaf)
    result = run("check", "--tokenizer", TINY, "--text", "e\u0301")
    assert result.exit_code == 1 and "tokenizer.normalized of text 0" in result.output


def test_a_file_is_one_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\n")
    result = run("check", "--tokenizer", TINY, "--file", tmp_path / "a.txt")
    assert result.exit_code == 0 and "9 characters" in result.output


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_file_that_is_no_text_exits_with_2(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)
    result = run("check", "--tokenizer", TINY, "--file", tmp_path / "a.txt")
    assert result.exit_code == 2 and "expected:" in result.output


def test_half_a_character_on_the_command_line_exits_with_2() -> None:
    assert run("check", "--tokenizer", TINY, "--text", "a\udce9").exit_code == 2


def test_options_of_the_other_kind_are_refused() -> None:
    assert "tokenizer's" in run("record", "tokenization/words", "--taps", "op").output
    assert "no candidate" in run("check", CASES / "words.pb", "--tokenizer", TINY, "--text", "a").output
    assert "go with --tokenizer" in run("check", CASES / "words.pb", "--text", "a").output


def test_ours_delivers_every_stage() -> None:
    assert list(ours(read(CASES / "words.pb").case, TINY).run.materialised) == list(STAGES)
