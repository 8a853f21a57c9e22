"""The headrooms and how shares are counted from them."""

from __future__ import annotations

import math

import pytest
from google.protobuf import text_format

from detection.honest.measure import unfit
from qwen3_golden import GOLDEN_ROOT, ParityError, pb, table
from qwen3_parity.judge.budgets import Headroom, Shares, headroom, shares
from qwen3_parity.judge.compare import Metrics
from qwen3_spec.ops import OPS

UNIT = Headroom(1, 1, 1, 1)


def test_whole_runs_have_one_row_for_every_op():
    assert headroom("run", "linear") == headroom("run")


def test_an_op_with_a_row_of_its_own_gets_it():
    assert headroom("op", "rms_norm").rms > headroom("op", "linear").rms


def test_an_unknown_kind_is_our_own_fault():
    with pytest.raises(ParityError, match="harness bug"):
        headroom("nonsense")


def test_every_op_of_the_table_can_be_computed_again():
    assert {row.op for row in table()} - set(OPS) == {"input"}


def test_a_share_is_error_over_headroom_times_floor():
    metrics = Metrics(4, rms=1, max=6, row=2, row_index=(0, 0), head=3, head_index=(0,))
    floor = pb.Floor(rms=1, max=2, row=4, head=1)
    assert shares(metrics, floor, Headroom(4, 3, 1, 6)) == Shares(0.25, 1.0, 0.5, 0.5)


def test_a_floor_of_zero_allows_nothing():
    assert shares(Metrics(1, rms=1e-30), pb.Floor(), UNIT).rms == math.inf


def test_no_error_needs_no_floor():
    assert shares(Metrics(1), pb.Floor(), UNIT).worst == 0


def test_a_tap_without_heads_has_no_share_of_them():
    assert shares(Metrics(1, head=5.0), pb.Floor(), UNIT).head == 0


def test_a_nan_share_is_the_worst():
    assert math.isnan(Shares(math.nan, 2, 0, 0).worst) and math.isnan(Shares(0, math.nan, 0, 0).worst)


def on_record() -> pb.Tolerances:
    return text_format.Parse((GOLDEN_ROOT / "tolerances.textproto").read_text(encoding="utf-8"), pb.Tolerances())


def test_every_headroom_fits_its_measurement_on_record() -> None:
    assert unfit(on_record()) == []


def test_whole_runs_have_both_sides_of_their_headroom_on_record() -> None:
    runs = {row.op: row for row in on_record().headroom if row.kind == "run"}
    assert set(runs) == {"", "bias_gradient", "norm_input_gradient"}
    assert all(run.honest.rms > 0 and run.smallest_mutant >= 2 for run in runs.values())


@pytest.mark.parametrize(("change", "word"), [(20, "worst honest error"), (0.3, "honest runs use")])
def test_a_headroom_that_is_moved_without_its_measurement_is_refused(change: float, word: str) -> None:
    table = on_record()
    row = next(row for row in table.headroom if row.op == "linear")
    row.rms *= change
    assert [word in problem for problem in unfit(table)] == [True]


def test_a_headroom_without_a_measurement_is_refused() -> None:
    table = on_record()
    next(row for row in table.headroom if row.op == "rope").ClearField("honest")
    assert "op rope: no measurement on record" in unfit(table)
