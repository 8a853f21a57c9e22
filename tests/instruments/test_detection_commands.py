"""The instruments that test the judge: commands of their own, found from the folder tests, none of the user's verbs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from detection.gates.command import gates
from detection.honest.command import budgets
from detection.honest.run import VARIATIONS, record_all
from detection.mechanical.command import mechanical
from detection.mutants.command import mutants
from detection.unseen.command import unseen
from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.check import check_run
from qwen3_parity.cli import main

TESTS = Path(__file__).parents[1]
OPTIONS = {
    mutants: "--all-cases --blame-only --list --workers --timeout --json --markdown",
    mechanical: "--only --json --workers",
    budgets: "--variation --only --quick --mutants --check --write",
    unseen: "--only --level --list --timeout --json",
    gates: "--every --timeout --json",
}


def test_no_verb_of_the_users_command_line_tests_the_judge():
    offered = CliRunner().invoke(main, ["--help"]).output
    assert "check" in offered and not [verb for verb in ("mutants", "mechanical", "budgets") if f"  {verb} " in offered]
    assert CliRunner().invoke(main, ["mutants", "--list"]).exit_code == 2


@pytest.mark.parametrize("command", OPTIONS, ids=lambda command: command.name)
def test_an_instrument_has_the_options_that_its_verb_had(command):
    done = CliRunner().invoke(command, ["--help"])
    assert done.exit_code == 0 and [name for name in OPTIONS[command].split() if name not in done.output] == []


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("module", ["mutants", "kernels", "mechanical", "honest", "derived", "unseen", "gates"])
def test_an_instrument_starts_in_the_folder_tests_and_its_help_waits_for_no_framework(module):
    command = [sys.executable, "-X", "importtime", "-m", f"detection.{module}", "--help"]
    done = subprocess.run(command, cwd=TESTS, env=_without_tests(), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith(f"Usage: python -m detection.{module} ")
    assert not {"torch", "transformers"} & {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


@pytest.mark.slow  # a process that waits for every import
def test_a_variation_with_an_environment_is_recorded_wherever_the_package_was_found(tmp_path, monkeypatch):
    """Its process is told where the package is: by no installation and by nobody's PYTHONPATH."""
    monkeypatch.setenv("PYTHONPATH", _without_tests()["PYTHONPATH"])
    monkeypatch.chdir(tmp_path)
    variation = next(candidate for candidate in VARIATIONS if candidate.environment)
    golden = GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb"
    assert record_all(variation, [golden], tmp_path) == [golden]
    assert check_run(read(golden), read(tmp_path / "encoder" / "one_token.pb", digests=True)).exit_code == 0


def _without_tests() -> dict[str, str]:
    folders = [
        folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder and Path(folder) != TESTS
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
