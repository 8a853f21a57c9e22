"""Bug ids: each that stands anywhere in the project is defined, once and whole, and each that is defined is used."""

import re
from pathlib import Path

import pytest

from qwen3_golden import BUG_ID, GOLDEN_ROOT, ParityError, bug, bugs, manifest, read

PROJECT = GOLDEN_ROOT.parent
FOLDERS = ("docs", "examples", "golden", "impl", "reference", "tests", "tools")
TEXTS = {".py", ".md", ".txt", ".proto", ".textproto"}
REPORTED = re.compile(r"[\w.-]+/[\w.-]+#[0-9]+|port|[a-z.]+\.[a-z]+, .+")
IDS = frozenset(row.id for row in bugs())


def texts() -> list[Path]:
    """Every file that people write, but for the table and this file: it has an id that is not defined."""
    files = [path for folder in FOLDERS for path in (PROJECT / folder).rglob("*") if path.suffix in TEXTS]
    own = {GOLDEN_ROOT / "bugs.textproto", Path(__file__).resolve()}
    return [path for path in (*PROJECT.glob("*.md"), *files) if path not in own]


@pytest.fixture(scope="module")
def used() -> dict[str, str]:
    """Each id that is used, with a file that has it."""
    found = {}
    for path in texts():
        found |= dict.fromkeys(BUG_ID.findall(path.read_text(encoding="utf-8", errors="replace")), path.name)
    return found


@pytest.fixture(scope="module")
def exposed() -> dict[str, str]:
    """What a golden exposes, with the golden."""
    goldens = sorted((GOLDEN_ROOT / "cases").rglob("*.pb"))
    return {name: path.name for path in goldens for name in read(path).case.exposes}


def test_every_id_in_code_tests_and_documents_is_defined(used: dict[str, str]) -> None:
    assert {name: file for name, file in used.items() if name not in IDS} == {}


def test_what_a_golden_exposes_is_defined_or_an_own_seeded_bug(exposed: dict[str, str]) -> None:
    assert {n: file for n, file in exposed.items() if n not in IDS and not n.startswith("own/")} == {}


def test_every_defined_id_is_used(used: dict[str, str], exposed: dict[str, str]) -> None:
    assert IDS - used.keys() - exposed.keys() == set()


def test_ids_are_sorted_and_unique() -> None:
    assert [row.id for row in bugs()] == sorted(IDS)


def test_ids_have_the_shape_by_which_they_are_found() -> None:
    assert [name for name in IDS if not BUG_ID.fullmatch(name)] == []


def test_the_name_of_an_encoding_is_no_id() -> None:
    assert BUG_ID.findall("MSK-21 in UTF-16, NRM-01/half and T5B-08") == ["MSK-21", "NRM-01", "T5B-08"]


@pytest.mark.parametrize("field", ["wrong", "right", "visible_when"])
def test_every_definition_is_a_sentence_on_one_line(field: str) -> None:
    assert [row.id for row in bugs() if not re.fullmatch(r"\S.*\S\.", getattr(row, field))] == []


def test_wrong_is_not_right() -> None:
    assert [row.id for row in bugs() if row.wrong == row.right] == []


def test_a_report_is_an_issue_a_page_or_a_port() -> None:
    assert [(row.id, text) for row in bugs() for text in row.reported if not REPORTED.fullmatch(text)] == []


def test_a_bug_is_looked_up_by_its_id_or_a_variant_of_it() -> None:
    assert bug("ROP-22").id == bug("ROP-22/hidden").id == "ROP-22"


def test_an_unknown_id_is_refused_by_its_name() -> None:
    with pytest.raises(ParityError, match="no bug has this id") as caught:
        bug("MSK-99")
    assert caught.value.got == "MSK-99"


def test_the_manifest_has_the_table() -> None:
    assert "bugs.textproto" in {entry.path for entry in manifest.load().entry}
