"""action.yml: its steps run as GitHub runs them, and the job's summary says what was judged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from qwen3_golden import GOLDEN_ROOT, Tensor, read, write

ROOT = GOLDEN_ROOT.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, CHECK, KEEP = ACTION["runs"]["steps"]


def step(action_step: dict[str, Any], work: Path, programs: Path, **inputs: str) -> tuple[int, str, str]:
    """One step in `work`, with `programs` first on PATH: its exit code, what it printed, and the summary."""
    inputs_set = {name: fact.get("default", "") for name, fact in ACTION["inputs"].items()} | inputs
    environment = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda use: inputs_set[use[1]], value)
        for name, value in action_step.get("env", {}).items()
    }
    summary = work / "summary.md"
    environment |= {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTION_PATH": str(ROOT)}
    environment |= {"GITHUB_OUTPUT": str(work / "outputs"), "RUNNER_TEMP": str(work)}
    environment["PATH"] = f"{programs}:{os.environ['PATH']}"
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", action_step["run"]]
    ran = subprocess.run(shell, cwd=work, env=os.environ | environment, capture_output=True, text=True, timeout=600)
    return ran.returncode, ran.stdout + ran.stderr, summary.read_text(encoding="utf-8") if summary.exists() else ""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The commands that the first step would have installed."""
    folder = tmp_path / "programs"
    folder.mkdir()
    command = folder / "qwen3-parity"
    log = tmp_path / "commands"
    command.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {sys.executable} -m qwen3_parity "$@"\n')
    command.chmod(0o755)
    return folder


def artefact(work: Path) -> Path:
    """The folder that the last step keeps, by the output that it reads."""
    assert KEEP["with"]["path"] == ACTION["outputs"]["folder"]["value"] == "${{ steps.check.outputs.folder }}"
    name, _, folder = (work / "outputs").read_text(encoding="utf-8").strip().partition("=")
    assert name == "folder" and CHECK["id"] == "check"
    return Path(folder)


def test_a_right_recording_passes_judged_once_and_the_summary_has_its_verdict(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "my recordings").mkdir()
    shutil.copy(GOLDEN_ROOT / "cases" / "op" / "rope.pb", tmp_path / "my recordings")
    status, printed, summary = step(CHECK, tmp_path, programs, recordings="my recordings")
    assert status == 0 and summary.startswith("### Parity in op/rope\n") and "Parity in op/rope" in printed
    assert len((tmp_path / "commands").read_text(encoding="utf-8").splitlines()) == 1


def test_what_is_kept_are_the_page_the_markdown_and_a_test_for_each_case(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "recordings").mkdir()
    for name in ("rope", "linear"):
        shutil.copy(GOLDEN_ROOT / "cases" / "op" / f"{name}.pb", tmp_path / "recordings")
    _, _, summary = step(CHECK, tmp_path, programs, recordings="recordings")
    folder = artefact(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"report.html", "report.md", "report.xml", "log.txt"}
    assert (folder / "report.md").read_text(encoding="utf-8") == summary
    tests = {test.get("name") for test in ElementTree.parse(folder / "report.xml").iter("testcase") if not len(test)}
    assert tests == {"rope", "linear"}
    assert "always()" in KEEP["if"] and KEEP["with"]["name"] == "${{ inputs.artefact }}"


def test_partial_asks_for_no_results(tmp_path: Path, programs: Path) -> None:
    golden = read(GOLDEN_ROOT / "cases" / "decoder" / "plain.pb")
    golden.run.materialised[:] = [pattern for pattern in golden.run.materialised if pattern != "logits"]
    tensors = [item for item in golden if item.info.name != "logits"]
    (tmp_path / "recordings").mkdir()
    write(tmp_path / "recordings" / "plain.pb", replace(golden, tensors=tensors))
    strict, _, summary = step(CHECK, tmp_path, programs, recordings="recordings")
    assert strict == 1 and "Partial" in summary
    assert step(CHECK, tmp_path, programs, recordings="recordings", partial="true")[0] == 0
    status, printed, _ = step(CHECK, tmp_path, programs, recordings="recordings", partial="yes")
    assert status == 2 and "partial is true or false, not yes" in printed


def test_the_installation_runs_nothing_of_the_folder_that_the_job_runs_in(tmp_path: Path) -> None:
    (tmp_path / "pip.py").write_text("from pathlib import Path\nPath('ran').touch()\n", encoding="utf-8")
    environment = os.environ | {"GITHUB_ACTION_PATH": str(tmp_path / "nothing")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(["bash", "-ec", INSTALL["run"]], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode and not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_both_steps_run_in_an_environment_that_has_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    status, printed, _ = step(INSTALL, tmp_path, tmp_path / "environment" / "bin")
    assert status == 0, printed
    (tmp_path / "recordings").mkdir()
    shutil.copy(GOLDEN_ROOT / "cases" / "op" / "rope.pb", tmp_path / "recordings")
    status, printed, summary = step(CHECK, tmp_path, tmp_path / "environment" / "bin", recordings="recordings")
    assert status == 0 and "### Parity in op/rope" in summary, printed


def test_a_level_that_is_not_reached_fails(tmp_path: Path, programs: Path) -> None:
    shutil.copy(GOLDEN_ROOT / "cases" / "op" / "rope.pb", tmp_path)
    status, printed, summary = step(CHECK, tmp_path, programs, recordings=".", levels="causal cache")
    assert status == 1 and "required and not delivered" in printed and "decoder/plain" in printed
    assert "required and not delivered" in summary


def test_a_wrong_recording_fails_and_the_summary_has_its_diagnosis(tmp_path: Path, programs: Path) -> None:
    golden = read(GOLDEN_ROOT / "cases" / "op" / "rope.pb")
    unrotated = {f"output.{name}": golden[f"input.{name}", 0].array for name in ("q", "k")}
    tensors = [Tensor(item.info, unrotated.get(item.info.name, item.array)) for item in golden]
    write(tmp_path / "rope.pb", replace(golden, tensors=tensors))
    status, _, summary = step(CHECK, tmp_path, programs, recordings=".")
    assert status == 1 and "**rope.not\\_applied**" in summary and "- fix: " in summary


def test_a_folder_without_recordings_fails_and_the_summary_says_so(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, _, summary = step(CHECK, tmp_path, programs, recordings="empty")
    assert status == 2 and "no recording" in summary
    assert {path.name for path in artefact(tmp_path).iterdir()} == {"log.txt"}


def test_inputs_are_no_part_of_a_script() -> None:
    assert not [part["name"] for part in ACTION["runs"]["steps"] if "${{" in part.get("run", "")]


def test_the_page_shows_its_use_in_at_most_ten_lines_with_inputs_that_there_are() -> None:
    text = (ROOT / "docs" / "check-your-model.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(block.splitlines()) <= 10
    (job,) = yaml.safe_load(block)["jobs"].values()
    (use,) = [part for part in job["steps"] if "qwen3-parity" in part.get("uses", "")]
    assert set(use["with"]) <= set(ACTION["inputs"])
