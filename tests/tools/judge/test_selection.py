"""Which goldens a command takes: globs that take, globs that leave out, and features that an engine does not have."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, ParityError, read
from qwen3_parity.cli import main
from qwen3_parity.judge.features import FEATURES, features
from qwen3_parity.judge.selection import Selection
from qwen3_parity.recording import suite
from qwen3_parity.recording.regenerate import differences
from qwen3_parity.recording.suite import goldens

OF_CASES = {
    "decoder/plain": {"qk_norm"},
    "decoder/window_even": {"qk_norm", "window", "padding"},
    "decoder/yarn_stated": {"qk_norm", "yarn", "padding", "positions"},
    "decoder/mask_4d": {"qk_norm", "mask_4d"},
    "decoder/inputs_embeds": {"qk_norm", "inputs_embeds", "padding"},
    "decoder/generation": {"qk_norm", "window", "padding", "generation"},
    "encdec/qwen2": {"bias", "encoder", "padding"},
    "encoder/one_token": {"qk_norm", "encoder"},
    "block/bidirectional": {"qk_norm", "encoder", "inputs_embeds"},
    "long/position_32768": {"qk_norm", "padding", "positions"},
    "llama/ragged_decode": {"llama3", "padding"},
    "training/causal": {"qk_norm", "padding", "training"},
    "generation/merged": {"qk_norm", "window", "encoder", "padding", "generation"},
    "model/gemma3": {"padding"},
    "op/rope": set(),
    "tokenization/words": set(),
}


@pytest.mark.parametrize("case", OF_CASES)
def test_the_features_of_a_case_follow_from_its_golden(case: str) -> None:
    assert set(features(read(GOLDEN_ROOT / "cases" / f"{case}.pb"))) == OF_CASES[case]


def test_every_feature_is_one_of_some_committed_case() -> None:
    assert {name for path in goldens(kinds=()) for name in features(read(path))} == set(FEATURES)


def names(selection: Selection) -> set[str]:
    return {path.stem for path in goldens(selection)}


def test_globs_that_take_add_up_and_those_that_leave_out_win() -> None:
    chosen = Selection(only=("decoder/plain*", "decoder/yarn_*"), exclude=("*_two_rows", "*mscale"))
    assert names(chosen) == {"plain", "yarn_stated"}


def test_a_feature_left_out_leaves_out_every_case_that_has_it() -> None:
    every, chosen = names(Selection(("decoder/*",))), names(Selection(("decoder/*",), without=("yarn", "window")))
    assert every - chosen == {"yarn_stated", "yarn_mscale", "window_even", "window_chunks", "generation"}


def test_when_everything_is_left_out_the_message_says_what_was_asked() -> None:
    with pytest.raises(ParityError, match=r"--only decoder/yarn_\* --without yarn"):
        goldens(Selection(("decoder/yarn_*",), without=("yarn",)))


def test_parity_takes_all_three_options_repeatedly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Selection] = []

    def run(_out: Path, selection: Selection, **_: object) -> list[object]:
        asked.append(selection)
        raise ParityError("here", "enough", expected="", got="", next_step="")

    monkeypatch.setattr(suite, "run", run)
    options = [
        "--only",
        "decoder/*",
        "--only",
        "long/*",
        "--exclude",
        "long/deep",
        "--without",
        "yarn",
        "--without",
        "bias",
    ]
    CliRunner().invoke(main, ["parity", *options, "--out", str(tmp_path)])
    assert asked == [Selection(("decoder/*", "long/*"), ("long/deep",), ("yarn", "bias"))]


def test_a_word_that_is_no_feature_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(main, ["parity", "--without", "rope"])
    assert (result.exit_code, all(name in result.output for name in FEATURES)) == (2, True)


def test_regenerate_leaves_out_committed_cases_with_a_feature(tmp_path: Path) -> None:
    gone = {
        difference.name
        for difference in differences(tmp_path, selection=Selection(("decoder/y*", "decoder/pl*"), without=("yarn",)))
    }
    assert gone == {"decoder/plain", "decoder/plain_two_rows"}
