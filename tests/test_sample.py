"""What `make test` runs of a test with many parameters."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
import pytest

ODD = [pytest.param(number, marks=pytest.mark.slow if number % 2 else []) for number in range(5)]

@pytest.mark.sample(every=3)
@pytest.mark.parametrize("number", range(7))
def test_of_many(number): ...

@pytest.mark.sample(every=2)
@pytest.mark.parametrize("number", ODD)
def test_some_slow_already(number): ...

@pytest.mark.parametrize("number", range(2))
def test_whole(number): ...
"""


@pytest.fixture
def collected(tmp_path: Path) -> list[str]:
    """What is not slow in two files of the same tests."""
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    sample\n    slow\n", encoding="utf-8")
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(PROJECT, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "-m", "not slow"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_of_a_sample_the_first_of_each_n_that_are_not_slow_is_run_in_every_file(collected: list[str]) -> None:
    of_many, always = [f"test_of_many[{number}]" for number in (0, 3, 6)], ["test_some_slow_already[0]"]
    always += ["test_some_slow_already[4]", "test_whole[0]", "test_whole[1]"]
    assert collected == [f"{file}.py::{test}" for file in ("test_one", "test_two") for test in of_many + always]
