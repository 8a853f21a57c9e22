"""Tests stand where their source stands: tests/<package>/<room>/test_*.py."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCES = {
    "golden": "golden/qwen3_golden",
    "spec": "reference/qwen3_spec",
    "reference": "reference/qwen3_reference",
    "impl": "impl/qwen3_encdec",
    "tools": "tools/qwen3_parity",
    "instruments": "tests/detection",
}


@pytest.mark.parametrize("folder", SOURCES)
def test_every_folder_of_tests_is_a_room_of_the_package(folder: str) -> None:
    source = TESTS.parent / SOURCES[folder]
    rooms = {path.parent.relative_to(TESTS / folder) for path in (TESTS / folder).rglob("test_*.py")}
    assert rooms
    assert not [str(room) for room in rooms if not (source / room).is_dir() and not (source / f"{room}.py").is_file()]


def test_what_tests_share_has_a_name_of_its_own() -> None:
    """Their folders are all on the path: of two modules of one name the second is never read."""
    files = [path for path in TESTS.rglob("*.py") if TESTS / "detection" not in path.parents]
    names = Counter(path.stem for path in files if path.name != "conftest.py" and not path.stem.startswith("test_"))
    assert names and names.most_common(1)[0][1] == 1, names.most_common(3)
