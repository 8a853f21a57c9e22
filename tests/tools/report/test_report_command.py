"""The verb: what it writes in which format, its exit codes, two candidates, and the history of versions."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.cli import main

CASES = GOLDEN_ROOT / "cases"
ROPE, LINEAR = CASES / "op" / "rope.pb", CASES / "op" / "linear.pb"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


def test_parity_is_exit_code_0_and_a_page(tmp_path: Path) -> None:
    done = run(ROPE, "--out", tmp_path / "page.html")
    assert done.exit_code == 0 and "Parity in op/rope" in done.output, done.output
    assert "Parity in op/rope" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_divergence_is_exit_code_1_and_names_the_mistake(seeded, tmp_path: Path) -> None:
    done = run(seeded.path, "--out", tmp_path / "page.html")
    assert done.exit_code == 1 and "rope.interleaved" in done.output


def test_what_cannot_be_read_is_exit_code_2_and_no_page(tmp_path: Path) -> None:
    (tmp_path / "x.pb").write_bytes(b"no recording")
    assert run(tmp_path / "x.pb", "--out", tmp_path / "page.html").exit_code == 2
    assert not (tmp_path / "page.html").exists()


def test_markdown_has_the_mistake_its_fix_and_the_red_taps(seeded) -> None:
    text = run(seeded.path, "--format", "markdown").stdout
    assert "### Divergence in decoder/plain: it pairs adjacent channels" in text
    assert "**rope.interleaved**" in text and "- fix: x \\* cos" in text
    rows = [line for line in text.splitlines() if line.startswith("| decoder")]
    assert "rope" in rows[0] and len(rows) == 12


def test_a_folder_is_one_report(seeded, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    shutil.copy(seeded.path, folder / "plain.pb")
    shutil.copy(ROPE, folder / "rope.pb")
    text = run(folder, "--format", "markdown").stdout
    assert "1 of 2 cases without parity, one mistake behind it: it pairs adjacent channels" in text
    assert "| decoder/plain | divergence |" in text and "| op/rope" not in text


def test_a_page_of_a_folder_has_every_case_and_what_was_refused(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    for path in (ROPE, LINEAR):
        shutil.copy(path, folder)
    (folder / "x.pb").write_bytes(b"no recording")
    assert run(folder, "--out", tmp_path / "page.html").exit_code == 2
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("op/rope", "op/linear", "x.pb"))


def test_several_formats_are_of_one_judgement_and_have_its_exit_code(seeded, tmp_path: Path) -> None:
    formats = [part for name in ("html", "markdown", "junit", "html") for part in ("--format", name)]
    done = run(seeded.path, *formats, "--out", tmp_path / "v1.2")
    assert done.exit_code == 1, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v1.2.html", "v1.2.md", "v1.2.xml"]
    assert "rope.interleaved" in (tmp_path / "v1.2.md").read_text(encoding="utf-8")
    assert 'tests="1" failures="1"' in (tmp_path / "v1.2.xml").read_text(encoding="utf-8")
    without = run(ROPE, "--format", "markdown", "--format", "junit")
    assert without.exit_code == 2 and "--out" in without.output


def test_a_single_format_is_written_to_the_very_file(tmp_path: Path) -> None:
    assert run(ROPE, "--format", "junit", "--out", tmp_path / "tests").exit_code == 0
    assert 'tests="1" failures="0"' in (tmp_path / "tests").read_text(encoding="utf-8")


def test_a_level_has_the_cases_that_must_be_there_in_every_format(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    shutil.copy(CASES / "decoder/plain.pb", folder)
    for path in (ROPE, LINEAR):
        shutil.copy(path, folder)
    formats = ("--format", "html", "--format", "markdown", "--format", "junit")
    done = run(folder, *formats, "--level", "ops", "--out", tmp_path / "report")
    assert done.exit_code == 1 and "Parity in all 2 cases, and 42 required cases were not delivered" in done.output
    page, text, tests = ((tmp_path / f"report.{end}").read_text(encoding="utf-8") for end in ("html", "md", "xml"))
    assert "Required and not delivered, 42: op/context" in page
    assert "\nrequired and not delivered, 42: op/context" in text and "Levels reached" not in text
    assert 'tests="44" failures="42"' in tests
    assert run(ROPE, "--level", "ops").exit_code == 2
    without = run(folder, "--format", "markdown")
    assert without.exit_code == 0 and "required" not in without.stdout


def test_markdown_says_which_levels_are_reached(tmp_path: Path) -> None:
    shutil.copytree(CASES / "plumbing", tmp_path / "recordings")
    assert "\nLevels reached: reader.\n" in run(tmp_path / "recordings", "--format", "markdown").stdout


@pytest.mark.slow
def test_a_right_candidate_beside_a_wrong_one(seeded, tmp_path: Path) -> None:
    done = run(seeded.path, "--against", CASES / "decoder/plain.pb", "--format", "markdown")
    assert done.exit_code == 1 and "Beside it" in done.stdout and "parity" in done.stdout.splitlines()[-1]


def test_a_candidate_of_another_case_cannot_stand_beside(tmp_path: Path) -> None:
    done = run(ROPE, "--against", LINEAR, "--out", tmp_path / "page.html")
    assert done.exit_code == 2 and "it has none of the cases of the report" in done.output


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_a_history_has_a_line_for_each_version(seeded, tmp_path: Path) -> None:
    history, page = tmp_path / "history.jsonl", tmp_path / "page.html"
    assert run(seeded.path, "--history", history, "--label", "1.0", "--out", page).exit_code == 1
    assert run(CASES / "decoder/plain.pb", "--history", history, "--label", "1.1", "--out", page).exit_code == 0
    old, new = lines(history)
    assert (old["label"], new["label"]) == ("1.0", "1.1")
    assert old["cases"]["decoder/plain"]["ops"]["rope"] > 1e4 > 1 > new["cases"]["decoder/plain"]["worst"]
    assert 'id="history"' in page.read_text(encoding="utf-8")


def test_the_same_version_again_replaces_its_line(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    for label in ("1.0", "1.1", "1.0"):
        run(ROPE, "--history", history, "--label", label, "--format", "markdown")
    assert [line["label"] for line in lines(history)] == ["1.1", "1.0"]


@pytest.mark.parametrize(
    "text",
    [
        "no json\n",
        "[1]\n",
        '{"schema": 2, "label": "x", "cases": {}}\n',
        '{"schema": 1, "label": "x", "cases": {"a": {"verdict": "parity", "worst": true, "where": "", "ops": {}}}}\n',
        '{"schema": 1, "label": "x", "cases": {"a": {"verdict": "parity", "worst": NaN, "where": "", "ops": {}}}}\n',
        '{"schema": 1, "label": 1, "cases": {}}\n',
    ],
)
def test_what_is_no_history_is_refused_and_left_alone(text: str, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text(text)
    done = run(ROPE, "--history", history, "--label", "1.0", "--format", "markdown")
    assert done.exit_code == 2 and "this is no history of reports" in done.output
    assert history.read_text() == text


@pytest.mark.parametrize("worst", ["1" + "0" * 309, "-1" + "0" * 400, "1e999", "9" * 5000, "true"])
def test_a_share_that_is_no_number_of_float64_is_refused(worst: str, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    case = f'{{"verdict": "parity", "where": "", "worst": {worst}, "ops": {{}}}}'
    history.write_text(text := f'{{"schema": 1, "label": "a", "cases": {{"op/rope": {case}}}}}\n')
    done = run(ROPE, "--history", history, "--label", "1.0", "--format", "markdown")
    assert done.exit_code == 2 and "this is no history of reports" in done.output
    assert history.read_text() == text


WRITER = """
import sys
from pathlib import Path
from qwen3_parity.report.page.history import appended
for number in range(20):
    appended(Path(sys.argv[1]), f"{sys.argv[2]}.{number}", [])
"""


@pytest.mark.slow
def test_six_writers_of_one_history_lose_no_line(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(history), str(index)]) for index in range(6)]
    assert [writer.wait(timeout=300) for writer in writers] == [0] * 6
    labels = [line["label"] for line in lines(history)]
    assert sorted(labels) == sorted(f"{index}.{number}" for index in range(6) for number in range(20))
    assert list(tmp_path.iterdir()) == [history]


def test_a_history_that_somebody_holds_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qwen3_parity.report.page.history._PATIENCE", 0.1)
    with (history := tmp_path / "history.jsonl").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = run(ROPE, "--history", history, "--label", "1.0", "--format", "markdown")
    assert done.exit_code == 2 and "another process holds this history" in done.output


def test_a_history_needs_a_label(tmp_path: Path) -> None:
    done = run(ROPE, "--history", tmp_path / "history.jsonl")
    assert done.exit_code == 2 and "--history and --label go together" in done.output


def test_nothing_in_a_markdown_report_is_a_recordings_markdown() -> None:
    from qwen3_parity.diagnosis.mistake import Mistake
    from qwen3_parity.report.markdown import markdown
    from qwen3_parity.report.page.contents import Report

    odd = "[x](http://x)|<b>\n# @you `"
    text = markdown(Report([], [Mistake(odd, (odd,), odd, (odd,), (odd,), evidence=(odd,))]))
    assert "[x](" not in text and "<b>" not in text.replace("\\<b\\>", "") and "\n# " not in text
    assert all("\\@you" in line for line in text.splitlines() if "@you" in line)
