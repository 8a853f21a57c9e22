"""The words of verdicts: shares that no budget allows, large shares, ULPs, and what a mask's fix speaks of."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, pb, read, write
from qwen3_parity import check
from qwen3_parity.cli import main
from qwen3_parity.judge.compare import exact
from qwen3_parity.judge.op_verdict import Errors, OpVerdict
from qwen3_parity.mistakes.softmax_masks import other_mask
from qwen3_parity.report import verdicts as report


def test_what_no_budget_allows_is_beyond_any_budget(world):
    spoilt = world.changed("encoder.norm", lambda array: array.__setitem__((0, 0), np.nan))
    assert "worst beyond any budget at encoder.norm (step 0)" in report.summary(check(world.golden, spoilt))


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.123, "12 %"),
        (0.994, "99 %"),
        (5.04, "504 %"),
        (9.99, "999 %"),
        (370.2, "370 ×"),
        (1e37, "over 1e+12 ×"),
    ],
)
def test_a_share_is_said_as_people_read_it(share, words):
    assert report.percent(share) == words


def test_in_a_sentence_what_is_far_beyond_a_budget_has_no_number():
    assert [report.of_budget(share) for share in (2e13, np.inf)] == ["beyond any budget"] * 2
    assert report.of_budget(370.2) == "370 × of its budget"


@pytest.mark.parametrize(("largest", "words"), [(3.0, "3 !"), (4.94e38, "over 1e+12 !"), (np.inf, "wrong !")])
def test_an_error_of_units_that_are_next_to_nothing_has_no_number(largest, words):
    verdict = OpVerdict("context", 0, "matmul", errors=Errors(largest, largest, largest, 0.0), share=np.inf)
    assert report.own_error(verdict) == words


@pytest.mark.parametrize("kind", [bool, np.int64])
def test_integers_and_bools_have_no_ulps(kind):
    metrics = exact(np.array([0, 1], kind), np.array([1, 1], kind))
    assert (metrics.differing, metrics.ulp) == (1, 0)


def test_ulps_of_frequencies_are_counted_in_their_own_type():
    golden = read(GOLDEN_ROOT / "cases" / "op" / "inv_freq_10.pb")
    (item,) = golden
    moved = np.nextafter(item.array, np.float32(np.inf))
    (tap,) = check(golden, replace(golden, tensors=[replace(item, array=moved)])).taps
    assert tap.metrics.ulp == 1


@pytest.mark.parametrize("recorded", [None, np.ones(1, bool)])
def test_another_mask_than_the_recorded_one_is_thought_of_only_where_one_was_recorded(recorded):
    values = SimpleNamespace(recorded=lambda name, step: recorded)
    site = SimpleNamespace(values=values, sibling=lambda name: name, step=0)
    fixes = [hypothesis.fix for hypothesis in islice(other_mask(site), 1)]
    assert fixes == ([] if recorded is None else ["apply the mask that was recorded"])


@pytest.mark.parametrize("command", ["check", "diagnose"])
def test_a_candidate_of_somebodys_own_capture_is_asked_for_its_golden(tmp_path, command):
    golden = read(GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb")
    case = pb.Case.FromString(golden.case.SerializeToString())
    case.name = "request"
    write(tmp_path / "mine.pb", replace(golden, case=case))
    result = CliRunner().invoke(main, [command, str(tmp_path / "mine.pb")])
    assert result.exit_code == 2
    assert f"give both: GOLDEN.pb {tmp_path / 'mine.pb'}" in result.stderr
    assert "encoder/ragged" not in result.stderr
