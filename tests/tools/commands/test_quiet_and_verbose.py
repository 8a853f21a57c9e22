"""-q is the verdict's line alone, -v everything; on every command that has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, Tensor, read, write
from qwen3_parity.cli import main

CASES = GOLDEN_ROOT / "cases"
ONE = CASES / "encoder" / "one_token.pb"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two recordings that are wrong, each in one op."""
    folder = tmp_path_factory.mktemp("wrong")
    for name, tap in (("encoder/one_token", "encoder.layers.0.mlp.act"), ("encoder/ragged", "encoder.norm")):
        golden = read(CASES / f"{name}.pb")
        golden.tensors[:] = [Tensor(t.info, t.array * 2 if t.info.name == tap else t.array) for t in golden]  # type: ignore[index]
        write(folder / f"{name}.pb", golden)
    return folder


@pytest.mark.parametrize("verb", ["check", "diagnose"])
def test_quiet_is_one_line_of_one_recording(verb: str, wrong: Path) -> None:
    path = wrong / "encoder" / "one_token.pb"
    done = run(verb, path, "-q")
    assert len(done.stdout.splitlines()) == 1 and done.stderr == ""
    assert done.exit_code == run(verb, path).exit_code


@pytest.mark.parametrize("verb", ["check", "diagnose"])
def test_quiet_is_one_line_of_a_folder(verb: str, wrong: Path) -> None:
    done = run(verb, wrong, "--quiet")
    assert len(done.stdout.splitlines()) == 1 and done.exit_code == 1


def test_the_line_of_a_diagnosis_names_place_and_mistake(wrong: Path) -> None:
    line = run("diagnose", wrong / "encoder" / "ragged.pb", "-q").stdout
    assert "divergence, run and ops" in line and "; encoder.norm: norm." in line


def test_quiet_says_what_was_written(tmp_path: Path) -> None:
    done = run("record", "op/rope", "--out", tmp_path / "rope.pb", "-q")
    assert done.output == f"{tmp_path / 'rope.pb'}\n"


def test_verbose_shows_every_tap() -> None:
    taps = {tensor.info.name for tensor in read(ONE) if tensor.info.op != "input"}
    few, every = run("check", ONE).stdout, run("check", ONE, "-v").stdout
    assert all(name in every for name in taps) and not all(name in few for name in taps)


def test_verbose_shows_every_red_case_of_a_folder(wrong: Path) -> None:
    shown = "encoder.norm (step 0): "
    assert shown not in run("check", wrong).stdout and shown in run("check", wrong, "-v").stdout


def test_a_verdict_is_quiet_or_verbose(wrong: Path) -> None:
    assert run("check", wrong, "-q", "-v").exit_code == 2


def test_quiet_and_json_are_on_every_command_alike() -> None:
    for verb, command in main.every_verb().items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert not options & {"--json", "-q", "--quiet"} or {"--json", "-q", "--quiet"} <= options, verb
