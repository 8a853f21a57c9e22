"""What a shell offers at the Tab key: names of cases, levels, features and taps, without a golden being read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from qwen3_golden import GOLDEN_ROOT, TABLES_ROOT
from qwen3_parity.cli import main
from qwen3_parity.folder.levels import LEVELS
from qwen3_parity.judge.features import FEATURES
from qwen3_parity.recording.tap_sets import TAP_SETS

VARIABLE = "_QWEN3_PARITY_COMPLETE"
NAMES = sorted(
    p.relative_to(GOLDEN_ROOT / "cases").with_suffix("").as_posix() for p in GOLDEN_ROOT.glob("cases/**/*.pb")
)


def offered(*words: str) -> list[str]:
    """What is offered for the last of these words."""
    shell = ShellComplete(main, {}, "qwen3-parity", VARIABLE)
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1]) if item.type == "plain"]


def kinds(*words: str) -> set[str]:
    shell = ShellComplete(main, {}, "qwen3-parity", VARIABLE)
    return {item.type for item in shell.get_completions(list(words[:-1]), words[-1])}


def test_a_golden_is_completed_by_the_names_of_the_cases() -> None:
    assert offered("record", "encoder/on") == ["encoder/one_token"]
    assert offered("record", "") == NAMES == offered("match-names", "") == offered("cases", "")


@pytest.mark.parametrize("option", ["--only", "--exclude"])
@pytest.mark.parametrize("verb", ["conformance", "regenerate", "parity"])
def test_selections_are_completed_by_the_names_of_the_cases(verb: str, option: str) -> None:
    assert offered(verb, option, "op/ro") == [name for name in NAMES if name.startswith("op/ro")]


def test_features_and_levels_are_completed() -> None:
    assert offered("conformance", "--without", "") == list(FEATURES)
    assert offered("check", "--level", "") == list(LEVELS)


def test_taps_are_completed_by_the_table_and_by_sets_of_taps() -> None:
    assert set(TAP_SETS) < set(offered("record", "x", "--taps", ""))
    assert "decoder.layers.*.merged_attn.q_rope" in offered("capture", "--taps", "decoder.layers.*.m")
    assert offered("record", "x", "--taps", "lo") == ["logits", "loss"]


@pytest.mark.parametrize("verb", ["check", "diagnose", "record"])
def test_a_recording_is_a_file(verb: str) -> None:
    assert "file" in kinds(verb, "build/")


@pytest.mark.parametrize(
    "words", [("capture", "--model"), ("check", "--tokenizer"), ("weights", "initialize", "--model")]
)
def test_a_checkpoint_is_a_directory(words: tuple[str, ...]) -> None:
    assert kinds(*words, "./Qw") == {"dir"}


PROTOCOL = {
    BashComplete: ({"COMP_WORDS": "qwen3-parity record encoder/on", "COMP_CWORD": "2"}, "plain,encoder/one_token"),
    ZshComplete: ({"COMP_WORDS": "qwen3-parity record encoder/on", "COMP_CWORD": "2"}, "plain\nencoder/one_token\n_"),
    FishComplete: ({"COMP_WORDS": "qwen3-parity record", "COMP_CWORD": "encoder/on"}, "plain,encoder/one_token"),
}


@pytest.mark.parametrize("shell", PROTOCOL, ids=lambda shell: shell.name)
def test_each_shell_is_answered_by_its_protocol(shell: type[ShellComplete], monkeypatch: pytest.MonkeyPatch) -> None:
    environment, answer = PROTOCOL[shell]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert shell(main, {}, "qwen3-parity", VARIABLE).complete().startswith(answer)


def test_no_golden_is_read_and_no_torch_is_loaded(tmp_path: Path) -> None:
    """The set has files that are no recordings, and torch cannot be imported."""
    for path in TABLES_ROOT.glob("*.textproto"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "cases" / "mine").mkdir(parents=True)
    (tmp_path / "cases" / "mine" / "first.pb").write_bytes(b"no recording")
    code = "import sys; sys.modules['torch'] = None; from qwen3_parity.cli import main; main(prog_name='qwen3-parity')"
    words = {"COMP_WORDS": "qwen3-parity record mi", "COMP_CWORD": "2", VARIABLE: "bash_complete"}
    environment = {**os.environ, **words, "QWEN3_PARITY_GOLDENS": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines()[0], done.stderr) == ("plain,mine/first", "")


def test_every_word_that_is_a_case_a_tap_or_a_checkpoint_is_completed() -> None:
    for verb, command in main.every_verb().items():
        for parameter in command.params:
            completed = {"--only", "--exclude", "--taps", "--case", "--tokenizer", "--model", "--checkpoints"} & set(
                parameter.opts
            )
            if completed and not isinstance(parameter.type, click.Path):
                assert parameter._custom_shell_complete is not None, (verb, completed)
