"""The command line: what it prints, and the exit codes 0, 1 and 2."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, bug, pb, read, write
from qwen3_parity.cli import main

COMMAND = (sys.executable, "-m", "qwen3_parity")
GOLDEN = GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def altered(path: Path, name: str, change: float) -> Path:
    """A copy of the golden with one number of one tap changed."""
    golden = read(GOLDEN)
    tensors = []
    for t in golden:
        array = t.array.copy()
        if t.info.name == name:
            array.reshape(-1)[0] += np.float32(change)
        tensors.append(Tensor(t.info, array))
    write(path, Recording(golden.case, golden.provenance, golden.run, tensors, golden.parameters))
    return path


def test_check_of_a_golden_with_itself_is_parity() -> None:
    result = run("check", GOLDEN, GOLDEN)
    assert result.exit_code == 0
    assert "parity" in result.output


def test_check_finds_the_golden_by_the_name_of_the_case(tmp_path: Path) -> None:
    copy = tmp_path / "copy.pb"
    copy.write_bytes(GOLDEN.read_bytes())
    assert run("check", copy).exit_code == 0


@pytest.mark.parametrize("verb", ["check", "diagnose"])
def test_a_golden_is_given_by_the_name_of_its_case(verb: str) -> None:
    assert run(verb, "encoder/one_token", GOLDEN).exit_code == run(verb, GOLDEN, GOLDEN).exit_code == 0


def test_a_report_is_given_its_golden_by_name(tmp_path: Path) -> None:
    assert run("report", "encoder/one_token", GOLDEN, "--out", tmp_path / "page.html").exit_code == 0


def test_the_next_command_of_a_recording_runs_as_it_stands(tmp_path: Path) -> None:
    recorded = run("record", "encoder/one_token", "--out", tmp_path / "in a folder" / "it's.pb")
    _, verb, *arguments = shlex.split(recorded.output.partition("next: ")[2])
    assert (verb, run(verb, *arguments).exit_code) == ("check", 0)


def test_check_of_a_divergence_exits_with_1_and_names_the_tap(tmp_path: Path) -> None:
    result = run("check", altered(tmp_path / "c.pb", "encoder.layers.1.output", 0.5))
    assert result.exit_code == 1
    assert "encoder.layers.1.output (step 0)" in result.output


def test_an_interrupt_is_no_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("qwen3_parity.commands._candidates.read", interrupted)
    result = run("check", GOLDEN, GOLDEN)
    assert result.exit_code == 130 and "interrupted" in result.output


def test_output_that_nobody_reads_is_no_divergence() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, "show", GOLDEN], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "words", [["show", GOLDEN, "--json"], ["--help"], ["check", "--help"]], ids=["json", "help", "help of a verb"]
)
def test_output_that_cannot_be_written_is_refused_with_json_too(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_another_checkpoint_than_the_cases_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "other.pb"
    result = run("record", "decoder/plain", "--model", GOLDEN_ROOT / "checkpoints" / "deep", "--out", path)
    assert result.exit_code == 2 and "this is not the checkpoint" in result.stderr and not path.exists()


def test_a_terminal_without_a_character_shows_its_number(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    changed = altered(tmp_path / "c.pb", "encoder.layers.1.output", 0.5)
    done = subprocess.run([*COMMAND, "check", changed], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (1, "") and r"\xd7 of its budget" in done.stdout


def test_check_as_json_holds_every_tap(tmp_path: Path) -> None:
    result = run("check", GOLDEN, altered(tmp_path / "c.pb", "encoder.norm", np.nan), "--json")
    report = json.loads(result.output)
    assert result.exit_code == 1 and report["verdict"] == "divergence"
    assert len(report["taps"]) == report["of"]
    assert report["wrong_alone"] == ["encoder.norm"]


@pytest.mark.parametrize("content", [b"", b"hello", GOLDEN.read_bytes()[:-40]])
def test_a_file_that_is_no_recording_exits_with_2_and_one_message(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "broken.pb").write_bytes(content)
    result = run("check", GOLDEN, tmp_path / "broken.pb")
    assert result.exit_code == 2
    assert "expected:" in result.output and "Traceback" not in result.output


def test_a_candidate_of_another_case_exits_with_2() -> None:
    assert run("check", GOLDEN, GOLDEN_ROOT / "cases" / "encoder" / "ragged.pb").exit_code == 2


@pytest.mark.parametrize("command", ["check", "record", "diagnose", "show"])
def test_a_recording_whose_case_is_named_like_a_path_exits_with_2_and_writes_nothing(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = read(GOLDEN)
    golden.case.name = f"../{tmp_path.name}/mine.pb"
    with monkeypatch.context() as careless:
        careless.setattr("qwen3_golden.writer.check_metadata", lambda *_: None)
        write(tmp_path / "forged.pb", golden)
    (tmp_path / "mine.pb").write_bytes(GOLDEN.read_bytes())
    result = run(command, tmp_path / "forged.pb")
    assert result.exit_code == 2 and "name of the case" in result.output
    assert (tmp_path / "mine.pb").read_bytes() == GOLDEN.read_bytes()


def test_record_then_check_is_parity(tmp_path: Path) -> None:
    assert run("record", "encoder/one_token", "--out", tmp_path / "c.pb").exit_code == 0
    assert run("check", tmp_path / "c.pb").exit_code == 0


def test_an_unknown_case_exits_with_2_and_says_the_nearest() -> None:
    result = run("record", "encoder/one_tokn")
    assert result.exit_code == 2 and "most like it: encoder/one_token" in result.output


def test_an_implementation_that_cannot_be_imported_exits_with_2() -> None:
    assert run("record", "encoder/one_token", "--impl", "nothing.here:factory").exit_code == 2


def test_show_prints_the_case_and_its_taps() -> None:
    result = run("show", GOLDEN, "--tap", "*.norm")
    assert result.exit_code == 0
    assert "encoder.norm" in result.output and "embed_tokens" not in result.output


def test_show_says_the_axes_of_an_ops_operands() -> None:
    case = GOLDEN_ROOT / "cases" / "op" / "scores.pb"
    assert re.search(r"input\.k .* batch kv_heads key head_dim", run("show", case).output)
    taps = {tap["name"]: tap["axes"] for tap in json.loads(run("show", case, "--json").output)["taps"]}
    assert taps["input.q"] == [*taps["output.scores"][:3], "head_dim"]


def test_show_says_what_goes_wrong_in_each_bug_that_a_case_exposes() -> None:
    golden = read(GOLDEN)
    shown = run("show", GOLDEN, "--tap", "*.norm").output
    assert golden.case.exposes and all(f"{name}  {bug(name).wrong}" in shown for name in golden.case.exposes)


def test_show_prints_what_a_bug_id_means() -> None:
    result = run("show", "MSK-21")
    row = bug("MSK-21")
    assert result.exit_code == 0
    for part in (row.id, row.wrong, row.right, row.visible_when, *row.reported):
        assert part in result.output


def test_show_refuses_an_id_that_no_table_has() -> None:
    result = run("show", "MSK" + "-99")
    assert result.exit_code == 2 and "no file, case, mistake or bug of this name" in result.output


def test_parity_writes_recordings_and_a_report(tmp_path: Path) -> None:
    result = run("parity", "--only", "encoder/one_token", "--out", tmp_path)
    assert result.exit_code == 0
    assert (tmp_path / "report.html").is_file() and (tmp_path / "encoder" / "one_token.pb").is_file()
    assert str(tmp_path / "report.html") in result.output


def without_its_result(path: Path) -> Path:
    golden = read(GOLDEN)
    run_ = pb.Run.FromString(golden.run.SerializeToString())
    run_.materialised.remove("encoder.norm")
    write(path, Recording(golden.case, golden.provenance, run_, [t for t in golden if t.info.name != "encoder.norm"]))
    return path


@pytest.mark.parametrize("command", ["check", "diagnose"])
def test_a_partial_verdict_exits_with_1_unless_no_more_was_asked_for(command: str, tmp_path: Path) -> None:
    path = without_its_result(tmp_path / "c.pb")
    for arguments, code in (((), 1), (("--partial",), 0)):
        result = run(command, path, *arguments)
        assert result.exit_code == code and "partial, run and ops" in result.output
        assert "encoder.norm (step 0)" in result.output


def test_parity_with_nothing_to_compare_exits_with_2(tmp_path: Path) -> None:
    assert run("parity", "--only", "no such case", "--out", tmp_path).exit_code == 2


def test_a_candidate_may_store_wider_than_the_golden(tmp_path: Path) -> None:
    golden = read(GOLDEN)
    tensors = []
    for t in golden:
        info, array = pb.Tensor.FromString(t.info.SerializeToString()), t.array
        if info.dtype == pb.F32 and info.op != "input":
            info.dtype, array = pb.F64, array.astype(np.float64)
            info.bytes *= 2
        tensors.append(Tensor(info, array))
    write(tmp_path / "wide.pb", Recording(golden.case, golden.provenance, golden.run, tensors))
    assert run("check", GOLDEN, tmp_path / "wide.pb").exit_code == 0


def test_a_case_without_a_network_cannot_be_recorded() -> None:
    result = run("record", "plumbing/dtypes")
    assert result.exit_code == 2 and "no network to run" in result.output


def test_a_report_that_cannot_be_written_is_a_message(tmp_path):
    golden = GOLDEN_ROOT / "cases" / "op" / "rope.pb"
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(main, ["check", str(golden), str(golden), "--junit", str(tmp_path / "file" / "a.xml")])
    assert done.exit_code == 2
    assert "it cannot be read or written" in done.output and "Traceback" not in done.output
