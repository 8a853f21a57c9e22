"""The committed Unicode tables are what the installed Hugging Face shows, and what it can show is all there is."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from tokenizers import Regex, pre_tokenizers

from qwen3_encdec.tokenizer.pattern_syntax import LIGATURES
from qwen3_encdec.tokenizer.unicode_tables import DIRECTORY
from qwen3_reference.vocabulary import unicode_tables
from qwen3_reference.vocabulary.unicode_tables import CHARACTERS, main, matched, nfc, tables


@pytest.fixture
def committed() -> Path:
    return DIRECTORY


@pytest.fixture(scope="module")
def generated() -> dict[str, list[str]]:
    return tables()


def rows(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith("#")]  # the version in the header may be another


@pytest.mark.slow
def test_the_committed_tables_are_those_of_the_installed_library(
    committed: Path, generated: dict[str, list[str]]
) -> None:
    on_disk = {path.name: rows(path.read_text(encoding="utf-8").splitlines()) for path in committed.iterdir()}
    assert on_disk == {name: rows(lines) for name, lines in generated.items()}


@pytest.mark.slow
def test_the_generator_writes_files_that_name_the_library(
    tmp_path: Path, generated: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unicode_tables, "tables", lambda: generated)
    main([str(tmp_path)])
    for name, lines in generated.items():
        assert (tmp_path / name).read_text(encoding="utf-8").splitlines() == lines
        assert "tokenizers " in lines[0]


def test_the_tables_are_small(committed: Path) -> None:
    assert sum(path.stat().st_size for path in committed.iterdir()) < 100_000


def test_no_character_above_ffff_is_a_space() -> None:
    assert max(matched(r"\s")) <= "\uffff"


@pytest.mark.slow
def test_of_two_ascii_letters_only_the_known_ligatures_match_one_character() -> None:
    several = "\n".join(c for c in CHARACTERS if len(c.casefold()) > 1 or len(unicodedata.normalize("NFKD", c)) > 1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    matching = set()
    for pair in (a + b for a in letters for b in letters):
        split = pre_tokenizers.Split(Regex(f"(?i:{pair})"), "removed", invert=True)
        if split.pre_tokenize_str(several):
            matching.add(pair)
    assert matching == set(LIGATURES)


def test_a_composed_pair_is_what_the_library_composes(committed: Path) -> None:
    for row in rows((committed / "compositions.txt").read_text(encoding="utf-8").splitlines()):
        first, second, both = (chr(int(code, 16)) for code in row.split())
        assert nfc(first + second) == both
