"""Property tests draw the same examples whenever and wherever they run, and fresh ones where they are asked to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from hypothesis import settings

HERE = Path(__file__).resolve().parent
DRAWS = """
from hypothesis import given, settings
from hypothesis import strategies as st

@given(st.lists(st.floats()))
@settings(max_examples=20)
def test_draws(value):
    print("drawn", value)
"""


def drawn(folder: Path, *options: str, seed: str) -> list[str]:
    """What a property test draws in a process of its own, below the tests' own conftest."""
    (folder / "conftest.py").write_text((HERE / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "test_draws.py").write_text(DRAWS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *options, "test_draws.py"]
    env = {name: value for name, value in os.environ.items() if name != "CI"} | {"PYTHONHASHSEED": seed}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return [line for line in done.stdout.splitlines() if "drawn" in line]


def test_the_same_examples_are_drawn_in_every_run_and_fresh_ones_on_request(tmp_path: Path) -> None:
    first, second = (drawn(tmp_path, seed=seed) for seed in ("1", "2"))
    assert first == second and len(first) == 20
    assert drawn(tmp_path, "--hypothesis-profile=fresh", seed="1") != first
    assert not (tmp_path / ".hypothesis" / "examples").exists()


def test_no_run_depends_on_the_clock_or_on_earlier_ones() -> None:
    for name in ("same", "fresh"):
        profile = settings.get_profile(name)
        assert profile.deadline is None and profile.database is None


def test_no_test_chooses_for_itself_how_its_examples_are_drawn() -> None:
    chosen = re.compile(r"settings\([^)]*\b(derandomize|database|deadline)\b|\b(load_profile|register_profile)\(")
    files = [path for path in HERE.rglob("*.py") if path.parent != HERE]
    assert not [path.name for path in files if chosen.search(path.read_text(encoding="utf-8"))]


def test_make_slow_draws_fresh_examples_of_every_property() -> None:
    text = (HERE.parent / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^slow:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert all("--hypothesis-profile=fresh" in line for line in recipe.splitlines())
    assert "hypothesis and not slow" in recipe and "-m slow" in recipe
