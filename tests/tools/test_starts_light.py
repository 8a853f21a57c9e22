"""What needs neither PyTorch nor Hugging Face does not wait for them: they take seconds to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from qwen3_golden import GOLDEN_ROOT

CASES = GOLDEN_ROOT / "cases"
OP = str(CASES / "op" / "context.pb")
MODEL = str(CASES / "encdec" / "ragged.pb")
HEAVY = ("torch", "transformers", "qwen3_encdec")
AT_THE_END = f"""
import atexit, sys
atexit.register(lambda: print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr))
"""
COMMAND = "from qwen3_parity.cli import main; main()"


def imported(code: str, *arguments: str) -> list[str]:
    """The heavy packages that were imported when the code had run."""
    command = [sys.executable, "-c", AT_THE_END + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1].split()


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("parity", "--help"), ("show", MODEL), ("check", OP, OP), ("diagnose", OP, OP)],
    ids=lambda words: " ".join(word.rsplit("/", 1)[-1] for word in words),
)
def test_a_command_on_files_imports_no_framework(arguments: tuple[str, ...]) -> None:
    assert imported(COMMAND, *arguments) == []


def test_the_pytest_plugin_costs_others_nothing() -> None:
    assert imported("import qwen3_parity.plugin") == []


def test_the_same_question_sees_a_package() -> None:
    assert "transformers" in imported("import transformers")
