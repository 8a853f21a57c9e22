"""A folder of recordings is judged in one go: what is in it, what is missing, and what cannot be judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, read, write
from qwen3_parity.cli import main
from qwen3_parity.folder.check import check_folder
from qwen3_parity.judge.candidates import golden_names

CASES = GOLDEN_ROOT / "cases"
RIGHT = ("encoder/one_token", "op/rope", "tokenization/words")
Change = Callable[[Recording], object]


def deliver(folder: Path, name: str, change: Change = lambda _: None, file: str = "") -> Path:
    """A golden as a candidate below a folder, after `change` on its messages; the file's path."""
    golden = read(CASES / f"{name}.pb")
    change(golden)
    path = folder / (file or f"{name}.pb")
    write(path, golden)
    return path


def doubled(name: str) -> Change:
    def change(golden: Recording) -> None:
        golden.tensors[:] = [Tensor(t.info, t.array * 2 if t.info.name == name else t.array) for t in golden]  # type: ignore[index]

    return change


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("right")
    for name in RIGHT:
        deliver(folder, name, file=f"any/depth/{name.replace('/', ' ')}.pb")
    return folder


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two right cases, one wrong, one cut off, one of no golden, one twice."""
    folder = tmp_path_factory.mktemp("mixed")
    for name in RIGHT[:2]:
        deliver(folder, name)
    deliver(folder, "encoder/ragged", doubled("encoder.layers.0.mlp.act"))
    cut = deliver(folder, "encoder/window_odd")
    cut.write_bytes(cut.read_bytes()[:-40])
    deliver(folder, "op/swiglu", lambda golden: setattr(golden.case, "name", "op/swiglo"))
    deliver(folder, "op/rope", file="op/rope_again.pb")
    return folder


def test_every_recording_of_a_folder_is_judged_at_any_depth_by_the_case_that_it_says(sound: Path) -> None:
    folder = check_folder(sound)
    assert [(verdicts.case.name, verdicts.word) for verdicts in folder.results] == [(name, "parity") for name in RIGHT]
    assert folder.exit_code == 0


def test_ops_are_judged_alone_where_the_checkpoint_is_committed(sound: Path) -> None:
    assert [verdicts.judged for verdicts in check_folder(sound).results] == ["run and ops", "run and ops", "copies"]


def test_the_table_has_a_row_for_each_case_and_says_what_was_not_delivered(sound: Path) -> None:
    done = run("check", sound)
    assert done.exit_code == 0, done.output
    assert all(any(line.split()[:2] == [name, "parity"] for line in done.output.splitlines()) for name in RIGHT)
    absent = len(golden_names()) - len(RIGHT)
    assert f"not delivered, {absent}: block/*, " in done.output
    assert "parity in 3 of 3 cases" in done.output


def test_a_divergence_is_shown_and_the_next_command_said(mixed: Path) -> None:
    done = run("check", mixed)
    assert "encoder.layers.0.mlp.act (step 0)" in done.output
    assert f"qwen3-parity diagnose {mixed}" in done.output.replace("\n", "")


def test_a_recording_that_is_refused_keeps_no_other_from_being_judged(mixed: Path) -> None:
    folder = check_folder(mixed)
    assert [(verdicts.case.name, verdicts.exit_code) for verdicts in folder.results] == [
        ("encoder/one_token", 0),
        ("encoder/ragged", 1),
        ("op/rope", 0),
    ]
    assert folder.exit_code == 2


def test_what_is_refused_is_said_file_by_file_with_its_reason(mixed: Path) -> None:
    refused = {Path(error.where).stem: error.rule for error in check_folder(mixed).refused}
    assert set(refused) == {"window_odd", "swiglu", "rope_again"}
    assert refused["swiglu"] == "this recording is of no golden's case"
    assert refused["rope_again"] == "two recordings are of one case"
    output = run("check", mixed).output
    assert output.count("expected: ") >= 3 and "Traceback" not in output


def test_recordings_of_ones_own_golden_are_refused_once_and_where_the_golden_goes_is_said(tmp_path: Path) -> None:
    golden, *_ = (
        deliver(tmp_path, "op/rope", lambda golden: setattr(golden.case, "name", "mine"), file)
        for file in ("golden.pb", "runs/a.pb", "runs/b.pb", "runs/c.pb")
    )
    (error,) = check_folder(tmp_path / "runs").refused
    assert (Path(error.where).name, error.got) == ("a.pb", "case.name 'mine', here and in 2 more")
    assert len(error.expected) < 100 and f"qwen3-parity check GOLDEN {tmp_path / 'runs'}" in error.next_step
    assert run("check", golden, tmp_path / "runs").exit_code == 0


def test_a_recording_of_other_inputs_is_refused_and_the_field_named(tmp_path: Path) -> None:
    deliver(tmp_path, "op/rope")
    deliver(tmp_path, "encoder/one_token", lambda golden: golden.case.steps.append(3))
    folder = check_folder(tmp_path)
    assert [verdicts.case.name for verdicts in folder.results] == ["op/rope"]
    assert "case.steps" in str(folder.refused[0]) and folder.exit_code == 2


def test_json_has_cases_refusals_and_what_is_missing(mixed: Path) -> None:
    report = json.loads(run("check", mixed, "--json").stdout)
    assert [case["verdict"] for case in report["cases"]] == ["parity", "divergence", "parity"]
    assert report["exit_code"] == 2 and "decoder/plain" in report["missing"]
    assert {*report["refused"][0]} == {"where", "rule", "expected", "got", "next_step", "fault"}


def test_junit_has_a_test_for_each_case_and_an_error_for_each_refusal(mixed: Path, tmp_path: Path) -> None:
    run("check", mixed, "--junit", tmp_path / "junit.xml")
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    counts = {name: suite.get(name) for name in ("failures", "errors", "skipped")}
    assert counts == {"failures": "1", "errors": "3", "skipped": str(len(golden_names()) - 3)}
    failed = [test.get("name") for test in suite.iter("testcase") if test.find("failure") is not None]
    assert failed == ["ragged"]


def test_junit_of_one_recording_is_one_test(tmp_path: Path) -> None:
    run("check", CASES / "op" / "rope.pb", "--junit", tmp_path / "junit.xml")
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [(test.get("classname"), test.get("name")) for test in suite] == [("op", "rope")]


def test_junit_holds_nothing_that_xml_does_not_allow(tmp_path: Path) -> None:
    (tmp_path / "\x1b[31m<&>\udcff.pb").write_bytes(b"no recording")
    assert run("check", tmp_path, "--junit", tmp_path / "junit.xml").exit_code == 2
    ElementTree.parse(tmp_path / "junit.xml")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    done = run("check", tmp_path)
    assert done.exit_code == 2 and "there is no recording to judge" in done.output


def test_a_folder_of_nothing_that_can_be_judged_is_no_pass(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes(b"no recording")
    done = run("check", tmp_path)
    assert done.exit_code == 2 and "nothing was judged" in done.output


def test_a_folder_without_results_is_partial_and_no_pass_unless_that_is_asked_for(tmp_path: Path) -> None:
    def headless(golden: Recording) -> None:
        golden.run.materialised.remove("encoder.norm")
        golden.tensors[:] = [tap for tap in golden if tap.info.name != "encoder.norm"]  # type: ignore[index]

    deliver(tmp_path, "encoder/one_token", headless)
    assert run("check", tmp_path).exit_code == 1
    assert run("check", tmp_path, "--partial").exit_code == 0


@pytest.mark.parametrize("option", [("--checkpoints", "x"), ("--model", "x")])
def test_options_for_one_candidate_are_refused_with_a_folder(option: tuple[str, ...], sound: Path) -> None:
    assert run("check", sound, *option).exit_code == 2


def test_a_recording_in_capitals_is_judged(tmp_path: Path) -> None:
    (tmp_path / "a.PB").write_bytes((CASES / "op" / "rope.pb").read_bytes())
    (tmp_path / "b.Pb").write_bytes((CASES / "op" / "swiglu.pb").read_bytes())
    assert [verdicts.case.name for verdicts in check_folder(tmp_path).results] == ["op/rope", "op/swiglu"]


@pytest.mark.parametrize("target", ["a folder", "a file"])
def test_a_link_out_of_the_folder_is_not_followed_and_said(target: str, tmp_path: Path) -> None:
    port, elsewhere = tmp_path / "port", tmp_path / "elsewhere"
    deliver(port, "op/rope")
    deliver(elsewhere, "op/swiglu")
    link = port / ("linked" if target == "a folder" else "linked.pb")
    link.symlink_to(elsewhere / "op" if target == "a folder" else elsewhere / "op" / "swiglu.pb")
    folder = check_folder(port)
    assert [verdicts.case.name for verdicts in folder.results] == ["op/rope"] and folder.exit_code == 2
    assert [(error.where, "a link leads out of the folder" in error.rule) for error in folder.refused] == [
        (str(link), True)
    ]
    done = run("check", port)
    assert done.exit_code == 2 and "a link leads out of the folder" in done.output


def test_a_folder_of_nothing_but_a_link_is_refused_for_it(tmp_path: Path) -> None:
    (tmp_path / "port").mkdir()
    (tmp_path / "port" / "linked").symlink_to(CASES / "op")
    done = run("check", tmp_path / "port")
    assert done.exit_code == 2 and "a link leads out" in done.output and "nothing was judged" in done.output


def test_links_within_the_folder_hide_nothing_and_double_nothing(tmp_path: Path) -> None:
    deliver(tmp_path / "port", "op/rope")
    (tmp_path / "port" / "again").symlink_to(tmp_path / "port")  # a circle
    (tmp_path / "link").symlink_to(tmp_path / "port")  # the folder itself may be one
    for folder in (tmp_path / "port", tmp_path / "link"):
        judged = check_folder(folder)
        assert [verdicts.case.name for verdicts in judged.results] == ["op/rope"] and judged.exit_code == 0


def test_a_candidate_that_no_implementation_made_is_remarked(tmp_path: Path) -> None:
    (tmp_path / "rope.pb").write_bytes((CASES / "op" / "rope.pb").read_bytes())
    deliver(tmp_path, "op/swiglu", lambda golden: setattr(golden.provenance, "platform", "another"))
    deliver(tmp_path, "op/linear", lambda golden: setattr(golden.provenance, "producer", "a port"))
    deliver(tmp_path, "tokenization/words")
    notes = {verdicts.case.name: verdicts.notes for verdicts in check_folder(tmp_path).results}
    itself = "the candidate is the golden itself, so no implementation was judged"
    reference = "the candidate was recorded by the reference, so no implementation of its own was judged"
    assert notes["op/rope"] == (itself,) and notes["op/swiglu"] == (reference,) and notes["op/linear"] == ()
    assert notes["tokenization/words"]
    words = " ".join(run("check", tmp_path).output.split())
    assert "recorded by the reference, no implementation of its own: op/rope, op/swiglu, tokenization/words" in words
    assert itself in " ".join(run("check", tmp_path / "rope.pb").output.split())
    run("report", tmp_path, "--format", "card", "--date", "2026-01-31", "--out", tmp_path / "card")
    assert json.loads((tmp_path / "card.json").read_text())["by_reference"] == sorted(set(notes) - {"op/linear"})
    assert "recorded by the reference: op/rope, op/swiglu, tokenization/words." in (tmp_path / "card.md").read_text()
