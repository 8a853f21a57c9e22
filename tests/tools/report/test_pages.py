"""What people and machines are shown."""

from __future__ import annotations

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from qwen3_parity import check
from qwen3_parity.report import verdicts as report

NORM = "encoder.norm"


def text(renderable):
    console = Console(width=200, file=StringIO())
    console.print(renderable)
    return console.file.getvalue()


@pytest.fixture
def good(world):
    return check(world.golden, world.golden)


@pytest.fixture
def bad(world):
    def spoil(array):
        array[0, 0] = np.nan

    return check(world.golden, world.changed(NORM, spoil))


def test_the_summary_says_verdict_share_of_taps_and_worst(good):
    assert "hand/made: parity, " in report.summary(good)
    assert f"{good.of} of {good.of} taps compared (100 %)" in report.summary(good)


def test_a_failure_stands_in_the_terminal_with_its_message(bad):
    shown = text(report.terminal(bad))
    assert "divergence" in shown and "NaN or infinity" in shown and NORM in shown


def test_a_pass_shows_only_the_worst_taps(good):
    assert len(report.listed(good)) < len(good.taps) == len(report.listed(good, every=True))


def test_ops_judged_alone_add_their_own_errors(world):
    shown = text(report.terminal(check(world.golden, world.golden, world.weights), every=True))
    assert "alone: the error of each op" in shown


def test_the_overview_has_a_line_for_each_case_and_details_of_failures(good, bad):
    shown = text(report.overview([good, bad]))
    assert shown.count("hand/made") >= 3 and "NaN or infinity" in shown


def test_json_is_valid_though_a_share_is_infinite(bad):
    parsed = json.loads(json.dumps(report.to_json([bad]), allow_nan=False))
    assert parsed["exit_code"] == 1
    assert parsed["cases"][0]["first_bad"] == f"{NORM} (step 0)"


def test_json_of_no_case_at_all_is_no_parity():
    assert report.to_json([])["exit_code"] == 1


@pytest.mark.parametrize(("share", "words"), [(0, "0"), (0.123, "12 %"), (370, "370 ×"), (float("inf"), "no budget")])
def test_shares_are_written_as_people_read_them(share, words):
    assert report.percent(share) == words


def test_ops_that_are_wrong_alone_are_named_and_no_others(world):
    def spoil(array):
        array[0, 0, 0] += 1

    spoilt = world.changed(NORM, spoil)
    shown = text(report.terminal(check(world.golden, spoilt, world.weights)))
    assert f"wrong on their own inputs: {NORM}" in shown


def test_a_pass_says_that_every_op_is_right_by_itself(world):
    shown = text(report.terminal(check(world.golden, world.golden, world.weights)))
    assert "every op that could be judged alone is right" in shown


@pytest.mark.parametrize("weights", [True, False])
def test_what_was_judged_stands_wherever_the_verdict_stands(world, weights):
    verdicts = check(world.golden, world.golden, world.weights if weights else None)
    scope = "run and ops" if weights else "run only"
    assert verdicts.judged == scope
    assert f"hand/made: parity, {scope}, " in report.summary(verdicts)
    assert scope in text(report.overview([verdicts]))
    assert verdicts.to_json()["judged"] == scope


def test_a_pass_of_the_run_only_is_counted_as_such(world, good):
    both = check(world.golden, world.golden, world.weights)
    assert report.closing([both]).startswith("parity in 1 of 1 cases, ")
    assert report.closing([both, good]).startswith("parity in 2 of 2 cases (1 run only), ")


def test_equal_bits_are_called_bit_for_bit(good, bad):
    assert report.worst(good) == ("bit for bit", "")
    assert report.worst(bad)[1] == f"{NORM} (step 0)"
