"""Nothing judged is a failure, on every road: a pattern that matches nothing ends with exit code 2 and says so."""

from __future__ import annotations

import pytest
from click import Command
from click.testing import CliRunner

from detection.honest.command import budgets
from detection.mechanical.command import mechanical
from detection.mutants.command import mutants
from qwen3_parity.cli import main

ROADS = {
    "parity": ["parity", "--only", "nothing*"],
    "record": ["record", "encoder/one_token", "--taps", "nothing*"],
}
INSTRUMENTS: dict[str, tuple[Command, list[str]]] = {
    "mutants": (mutants, ["nothing*"]),
    "mechanical": (mechanical, ["--only", "nothing*"]),
    "budgets, no variation": (budgets, ["--variation", "nothing*"]),
    "budgets, no case": (budgets, ["--only", "nothing*"]),
}


@pytest.mark.parametrize("road", [*ROADS, *(pytest.param(road, marks=pytest.mark.slow) for road in INSTRUMENTS)])
def test_a_pattern_that_matches_nothing_is_an_error(road: str) -> None:
    command, words = INSTRUMENTS[road] if road in INSTRUMENTS else (main, ROADS[road])
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 2, done.output
    assert "expected:" in done.output and "Traceback" not in done.output
