"""Levels: every committed case but other models' has one, and a folder reaches a level with each of its cases."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.cli import main
from qwen3_parity.folder.check import check_folder
from qwen3_parity.folder.levels import LEVELS, cases_of, reached
from qwen3_parity.judge.candidates import golden_names

CASES = GOLDEN_ROOT / "cases"
NAMES = list(golden_names())
GLOBS = [(level, glob) for level, globs in LEVELS.items() for glob in globs]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def deliver(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / f"{name}.pb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((CASES / f"{name}.pb").read_bytes())
    return folder


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every case of the level reader, and one of the level causal."""
    return deliver(tmp_path_factory.mktemp("reader"), *cases_of(["reader"], NAMES), "block/causal")


def test_every_committed_case_is_of_a_level_but_those_of_other_models() -> None:
    assert set(NAMES) - set(cases_of(LEVELS, NAMES)) == {name for name in NAMES if name.startswith("model/")}


@pytest.mark.parametrize(("level", "glob"), GLOBS)
def test_every_glob_of_a_level_is_of_some_case(level: str, glob: str) -> None:
    assert any(fnmatchcase(name, glob) for name in NAMES), level


def test_no_case_is_of_two_levels_but_those_of_generation() -> None:
    twice = {name for name in NAMES if sum(name in cases_of([level], NAMES) for level in LEVELS) > 1}
    assert twice == set(cases_of(["generation-greedy"], NAMES))


def test_a_level_is_passed_with_each_of_its_cases(reader: Path) -> None:
    done = run("check", reader, "--level", "reader")
    assert done.exit_code == 0, done.output
    assert "parity in 5 of 5 cases" in done.stdout


def test_what_no_level_asked_for_is_said_and_not_judged(reader: Path) -> None:
    assert "1 recording of another case was left alone" in run("check", reader, "--level", "reader").stdout


def test_a_level_with_a_case_missing_fails_and_names_it(reader: Path) -> None:
    done = run("check", reader, "--level", "reader", "--level", "causal")
    assert done.exit_code == 1
    assert "required and not delivered" in done.stdout and "decoder/plain" in done.stdout


def test_without_a_level_a_missing_case_is_no_failure(reader: Path) -> None:
    assert run("check", reader).exit_code == 0


def test_a_level_of_which_nothing_was_delivered_is_no_pass(reader: Path) -> None:
    done = run("check", reader, "--level", "training")
    assert done.exit_code == 1 and "nothing was judged" in done.stdout


def test_a_missing_case_of_a_level_is_a_failure_in_junit(reader: Path, tmp_path: Path) -> None:
    run("check", reader, "--level", "causal", "--junit", tmp_path / "junit.xml")
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("failures"), suite.get("skipped")) == (str(len(cases_of(["causal"], NAMES)) - 1), "0")


def test_the_levels_that_are_reached_are_said_and_what_others_need(reader: Path) -> None:
    output = " ".join(run("check", reader).stdout.split())
    assert "levels reached: reader" in output
    assert "level causal, 1 of 8 cases: missing decoder/head_dim_64, decoder/multiples_of_256, " in output


def test_a_level_of_which_no_case_was_judged_is_not_begun(reader: Path) -> None:
    assert [one.level for one in reached(check_folder(reader))] == ["reader", "causal"]


def test_json_has_the_levels_with_what_is_missing(reader: Path) -> None:
    levels = json.loads(run("check", reader, "--json").stdout)["levels"]
    assert [(one["level"], one["reached"], len(one["missing"])) for one in levels] == [
        ("reader", True, 0),
        ("causal", False, 7),
    ]


def test_a_partial_verdict_reaches_no_level(reader: Path) -> None:
    folder = check_folder(reader)
    for one in folder.results:
        object.__setattr__(one, "results", [("logits", 9)])
    assert not [one.level for one in reached(folder) if one.reached]


def test_a_level_for_a_single_recording_is_refused() -> None:
    assert run("check", CASES / "op" / "rope.pb", "--level", "ops").exit_code == 2
