"""`tokenize --file` of a long text: it is compared in pieces, so that nobody holds every stage of all of it at once."""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, pb, read
from qwen3_parity.cli import main
from qwen3_parity.text.ours import Ours
from qwen3_reference.tokenization.loading import ReferenceTokenizer, load_tokenizer
from qwen3_reference.tokenization.pieces import pieces

TOKENIZERS = GOLDEN_ROOT / "tokenizers"
TINY = TOKENIZERS / "tiny"
LINES = (
    "Grüße aus Zürich, 2024: don't\tworry <|im_start|>user\n你好，世界！\n\n    if x <= 10:\n        return 'ok'  \n"
)


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def peak(path: Path, characters: int) -> int:
    """The most bytes that Python held at once while a file of so many characters was compared."""
    path.write_text((LINES * (characters // len(LINES) + 1))[:characters], encoding="utf-8")
    gc.collect()  # what earlier tests left is collected now, or in the one run and not in the other
    tracemalloc.start()
    try:
        assert run("check", "--tokenizer", TINY, "--file", path)[0] == 0
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_further_character_takes_at_most_20_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen3_reference.tokenization.pieces.pieces", partial(pieces, size=1000))
    shorter, longer = 2_000, 5_000
    assert run("check", "--tokenizer", TINY, "--text", LINES)[0] == 0  # imports what stays, and is not measured
    most = {size: min(peak(tmp_path / f"{size}.txt", size) for _ in range(2)) for size in (shorter, longer)}
    grown = most[longer] - most[shorter]
    assert grown / (longer - shorter) <= 20


@pytest.fixture(scope="module", params=["tiny", "tiny-added", "tiny-overlaps", "tiny-sentinels"])
def reference(request: pytest.FixtureRequest) -> ReferenceTokenizer:
    return load_tokenizer(TOKENIZERS / request.param)


def ids(reference: ReferenceTokenizer, text: str) -> list[int]:
    token_ids: list[int] = reference.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return token_ids


@pytest.mark.parametrize("between", ["\n", "", " ", "\r\n \n", "e\u0301"], ids=ascii)
def test_the_ids_of_the_pieces_are_those_of_the_text(between: str, reference: ReferenceTokenizer) -> None:
    added = [token.content for token in reference.tokenizer.added_tokens_decoder.values()]
    text = between.join([*added, *LINES.split("\n"), "\u0301a", "12\t", "ab"] * 9)
    parts = list(pieces(reference, text, 64))
    assert len(parts) > 4 and "".join(parts) == text
    assert [number for part in parts for number in ids(reference, part)] == ids(reference, text)


@pytest.mark.parametrize("text", ["a" * 999, " " * 999, "\n" * 999, "\u0301" * 999], ids=lambda text: ascii(text[0]))
def test_a_text_without_a_place_to_cut_is_one_piece(text: str, reference: ReferenceTokenizer) -> None:
    assert list(pieces(reference, text, 16)) == [text]


def test_a_difference_far_behind_is_named_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(Ours):
        def encoding(self, message: pb.Encoding) -> pb.Encoding:
            self.tokenizer.normalize = str
            return super().encoding(message)

    monkeypatch.setattr("qwen3_parity.text.ours.Ours", Deaf)
    (tmp_path / "a.txt").write_text("one two\n" * 4000 + "e\u0301\n", encoding="utf-8")
    code, output = run("check", "--tokenizer", TINY, "--file", tmp_path / "a.txt")
    assert code == 1 and "from character 16384" in "".join(output.split("\n")), output


@pytest.mark.slow
def test_a_long_text_becomes_a_golden_of_its_pieces(tmp_path: Path) -> None:
    text, golden, candidate = LINES * 300, tmp_path / "g.pb", tmp_path / "c.pb"
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    assert run("check", "--tokenizer", TINY, "--file", tmp_path / "a.txt", "--out", golden)[0] == 0
    assert "".join(encoding.text for encoding in read(golden).tokenization.encoding) == text
    assert run("record", golden, "--model", TINY, "--out", candidate)[0] == 0
    assert run("check", golden, candidate)[0] == 0
