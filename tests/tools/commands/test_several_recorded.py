"""`record` of a glob and `parity --names`: several cases in one go, and what comes next with the options that count."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, read, write
from qwen3_parity.cli import main

FACTORY = """
import sys
sys.path.insert(0, {folder!r})
from plain_qwen3 import PlainQwen3

def build(case, directories):
    if case.name == "decoder/plain_two_rows":
        raise RuntimeError("one row alone")
    return PlainQwen3(directories["decoder"])
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def impl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A factory of a model with names of its own, and its map beside it."""
    (tmp_path / "several_here.py").write_text(FACTORY.format(folder=str(Path(__file__).parents[1] / "recording")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run("match-names", "decoder/plain", "--impl", "several_here:build").exit_code == 0
    return "several_here:build"


def test_a_glob_records_every_case_that_has_something_to_run(tmp_path: Path) -> None:
    done = run("record", "op/r*", "--out", tmp_path / "out", "--json")
    said = json.loads(done.stdout)
    names = [recording["case"] for recording in said["recordings"]]
    assert done.exit_code == 0 and len(names) > 3 and all(name.startswith("op/r") for name in names)
    assert said["next"]["command"] == f"qwen3-parity check --json {tmp_path / 'out'}"
    assert run("check", tmp_path / "out").exit_code == 0


def test_a_case_of_a_glob_that_fails_is_refused_and_the_others_are_recorded(tmp_path: Path, impl: str) -> None:
    done = run("record", "decoder/plain*", "--impl", impl, "--names", "names.toml", "--out", tmp_path / "out")
    assert done.exit_code == 2 and "1 of 2 cases recorded" in done.output and "one row alone" in done.output
    assert [path.name for path in (tmp_path / "out").rglob("*.pb")] == ["plain.pb"]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("nothing/*",), "no golden of this name"),
        (("plumbing/*",), "no case of this glob can be recorded"),
        (("decoder/*", "--model", "x"), "this is a glob"),
        (("tokenization/*", "--taps", "layer"), "a tokenizer's"),
    ],
)
def test_a_glob_that_cannot_be_recorded_is_refused(words: tuple[str, ...], rule: str, tmp_path: Path) -> None:
    done = run("record", *words, "--out", tmp_path / "out")
    assert done.exit_code == 2 and rule in done.output and not list(tmp_path.iterdir())


def test_parity_takes_the_name_map_of_a_module(tmp_path: Path, impl: str) -> None:
    words = ("parity", "--only", "decoder/plain", "--impl", impl, "--out", tmp_path / "out")
    assert run(*words, "--names", "names.toml").exit_code == 0
    refused = run(*words)
    assert refused.exit_code == 2 and "match-names decoder/plain --impl" in refused.output


def test_what_comes_next_keeps_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(GOLDEN_ROOT / "checkpoints" / "tied-decoder", "my model")
    model, files = ("--model", "my model"), "request.pb c.pb --model 'my model'"
    captured = run("capture", *model, "--target-ids", "1,2,3", "--no-floors", "--out", "request.pb", "--json")
    assert json.loads(captured.stdout)["next_step"] == "qwen3-parity record request.pb --model 'my model'"
    recorded = run("record", "request.pb", *model, "--out", "c.pb", "--json")
    following = json.loads(recorded.stdout)["next"]["command"]
    assert following == "qwen3-parity check --json --model 'my model' request.pb c.pb"
    candidate = read("c.pb")
    wrong = [Tensor(t.info, t.array * 2) if t.info.name == "decoder.norm" else t for t in candidate]
    write("c.pb", Recording(candidate.case, candidate.provenance, candidate.run, wrong, candidate.parameters))
    checked = run("check", "request.pb", "c.pb", *model)
    assert checked.exit_code == 1 and f"next:     qwen3-parity diagnose {files}" in checked.output
    diagnosed = json.loads(run("diagnose", "request.pb", "c.pb", *model, "--json").stdout)
    assert {problem["next_step"] for problem in diagnosed["problems"]} == {f"qwen3-parity diagnose {files}"}
