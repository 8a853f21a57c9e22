"""A folder of recordings of one case, judged by the golden that stands before it: a line each, the worst exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pb, read, write
from qwen3_parity.check import check
from qwen3_parity.cli import main
from qwen3_parity.folder.by_golden import judge_by_golden
from qwen3_parity.report.by_golden import closing, first_fault

CASE = "encoder/one_token"
GOLDEN = GOLDEN_ROOT / "cases" / f"{CASE}.pb"


def run(*words: object, code: int) -> str:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.stdout


def deliver(path: Path, change: Callable[[Recording], object] = lambda _: None, case: str = CASE) -> None:
    recording = read(GOLDEN_ROOT / "cases" / f"{case}.pb")
    change(recording)
    write(path, recording)


def doubled(recording: Recording) -> None:
    recording.tensors[:] = [  # type: ignore[index]
        Tensor(item.info, item.array * 2) if item.info.name == "encoder.layers.0.mlp.act" else item
        for item in recording
    ]


def lossy(recording: Recording) -> None:
    recording.run.arithmetic = pb.ARITHMETIC_OTHER


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    deliver(tmp_path / "eager.pb")
    deliver(tmp_path / "deep" / "kernels.pb", doubled)
    deliver(tmp_path / "lossy.pb", lossy)
    return tmp_path


@pytest.mark.parametrize("golden", [CASE, GOLDEN])
def test_each_recording_has_a_line_with_its_verdict_and_first_fault(golden: object, engines: Path) -> None:
    checked = run("check", golden, engines, code=1)
    lines = [line.split() for line in checked.splitlines()]
    assert [line[:2] for line in lines[1:4]] == [["deep/kernels.pb", "divergence"], ["eager.pb", "parity"],
                                                 ["lossy.pb", "within"]]  # fmt: skip
    assert "encoder.layers.0.mlp.act" in lines[1]
    diagnosed = run("diagnose", golden, engines, code=1)
    assert (
        "encoder.layers.*.mlp.act: recorded at another place" in diagnosed
        and f"qwen3-parity diagnose {engines}/deep" in diagnosed
    )
    assert "3 recordings by " in run("diagnose", golden, engines, "-q", code=1)
    assert "deep/kernels.pb\n" in run("diagnose", golden, engines, "-v", code=1)


def test_what_is_right_has_no_first_fault(engines: Path) -> None:
    golden = read(GOLDEN, digests=True)
    judged = judge_by_golden(golden, engines, lambda candidate: check(golden, candidate))
    assert [bool(first_fault(each)) for each in judged.results] == [True, False, False]
    assert closing(judged).endswith("1 divergence, 1 parity, 1 within budget, no parity")


def test_the_exit_code_is_the_worst(engines: Path) -> None:
    for file in (engines / "deep" / "kernels.pb", engines / "lossy.pb"):
        file.unlink()
    assert "1 recording by " in run("check", CASE, engines, code=0)
    deliver(engines / "other.pb", case="op/rope")
    assert "1 refused" in run("check", CASE, engines, "-q", code=2)


def test_json_says_of_each_how_to_ask_for_everything_and_what_comes_next(engines: Path) -> None:
    checked: dict[str, Any] = json.loads(run("check", CASE, engines, "--json", code=1))
    assert [file["verdict"] for file in checked["files"]] == ["divergence", "parity", "within budget, no parity"]
    assert checked["next"]["do"] == "run" and checked["next"]["command"].startswith("qwen3-parity diagnose --json")
    diagnosed = json.loads(run("diagnose", CASE, engines, "--json", code=1))
    assert diagnosed["next"]["do"] != "stop" and diagnosed["next"]["says"].startswith("deep/kernels.pb: ")
    shutil.rmtree(engines / "deep")
    stopped = json.loads(run("diagnose", CASE, engines, "--json", code=1))["next"]
    assert stopped["do"] == "stop" and "no parity" in stopped["says"]


def test_the_golden_is_no_candidate_of_its_own_folder(tmp_path: Path) -> None:
    deliver(tmp_path / "golden.pb", lambda recording: setattr(recording.case, "name", "mine/case"))
    assert (
        "there is no recording to judge"
        in CliRunner().invoke(main, ["check", f"{tmp_path}/golden.pb", f"{tmp_path}"]).output
    )
    deliver(tmp_path / "mine.pb", lambda recording: setattr(recording.case, "name", "mine/case"))
    assert "1 recording by " in run("check", tmp_path / "golden.pb", tmp_path, code=0)


def test_junit_has_a_test_for_each_recording(engines: Path, tmp_path: Path) -> None:
    run("check", CASE, engines, "--junit", tmp_path / "verdicts.xml", code=1)
    suite = ElementTree.parse(tmp_path / "verdicts.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")


def test_what_cannot_be_judged_so_is_said(engines: Path) -> None:
    done = CliRunner().invoke(main, ["report", CASE, str(engines)])
    assert done.exit_code == 2 and "judged by a golden with check and diagnose" in done.output
    done = CliRunner().invoke(main, ["diagnose", "tokenization/words", str(engines)])
    assert done.exit_code == 2 and "diagnosed one by one" in done.output
