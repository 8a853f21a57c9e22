"""Headrooms fit what was measured: twice the worst honest error, no more than sixteen times, half the smallest bug."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner
from google.protobuf import text_format

from detection.honest.command import TOLERANCES, budgets, smallest
from detection.honest.measure import Key, Row, Worst, errors_of, proposed, rows, worst, written
from detection.honest.run import VARIATIONS, network_goldens, run
from qwen3_golden import GOLDEN_ROOT, ParityError, pb

RULED = pb.Tolerances(
    headroom=[
        pb.Headroom(kind="run", rms=4, max=8, row=8, head=8),
        pb.Headroom(kind="op", rms=4, max=8, row=6, head=6),
        pb.Headroom(kind="op", op="rope", rms=3, max=8, row=6, head=6),
    ]
)


def measured(kind: str, op: str, **errors: float) -> dict[Key, Worst]:
    return {Key(kind, op, name): Worst(error, f"{op} somewhere") for name, error in errors.items()}


def row(honest: float, room: float, seeded: float | None = None) -> Row:
    return Row("op", "rope", "rms", room, Worst(honest, "somewhere"), seeded)


def test_a_headroom_of_twice_to_sixteen_times_the_worst_honest_error_fits() -> None:
    assert not row(1.5, 3).problems and not row(0.2, 3).problems


def test_a_headroom_of_which_honest_runs_use_more_than_half_is_too_tight() -> None:
    assert "honest runs use 0.53 of it" in row(1.6, 3).problems[0]


def test_for_an_error_next_to_nothing_the_smallest_round_number_is_proposed() -> None:
    assert row(1e-9, room=4).proposed == 1


def test_a_headroom_beyond_sixteen_times_the_worst_honest_error_is_slack() -> None:
    assert "20 × the worst honest error" in row(0.15, 3).problems[0]


def test_a_seeded_bug_that_uses_less_than_two_budgets_is_too_near() -> None:
    assert "smallest seeded bug uses 1.90 budgets" in row(1, 3, seeded=1.9).problems[0]


@pytest.mark.parametrize(("honest", "number"), [(0.4, 1), (0.9, 2), (1.9, 4), (2.1, 6), (7.9, 16), (14, 30)])
def test_the_least_round_number_that_leaves_half_is_proposed_for_a_tight_one(honest: float, number: float) -> None:
    assert row(honest, 0.5).proposed == number


@pytest.mark.parametrize(("honest", "number"), [(0.04, 1), (0.15, 2), (0.5, 8), (1.3, 20), (3, 40)])
def test_the_largest_round_number_within_the_rule_is_proposed_for_a_slack_one(honest: float, number: float) -> None:
    assert row(honest, 60).proposed == number


def test_an_op_without_a_row_belongs_to_the_common_one() -> None:
    found = rows(RULED, measured("op", "linear", rms=1.0) | measured("op", "rope", rms=0.5))
    assert {one.op: one.honest.error for one in found if one.kind == "op" and one.measure == "rms"} == {
        "": 1.0,
        "rope": 0.5,
    }


def test_numbers_that_fit_are_kept_and_what_was_measured_is_written() -> None:
    errors = measured("op", "rope", rms=0.5, max=2.0, row=1.0, head=1.0)
    rope = proposed(RULED, rows(RULED, errors)).headroom[2]
    assert (rope.rms, rope.max) == (3, 8)
    assert (rope.honest.rms, rope.honest.max) == (pytest.approx(0.5, abs=0.011), pytest.approx(2.0, abs=0.011))


def test_where_whole_runs_were_worst_is_written_in_words() -> None:
    errors = measured("run", "rope", rms=1.5, max=2.0, row=2.0, head=2.0)
    run = proposed(RULED, rows(RULED, errors)).headroom[0]
    assert run.measured.startswith("Worst honest: rms 1.50 (rope somewhere); max 2.00")


def test_the_worst_honest_error_on_record_never_shrinks() -> None:
    recorded = pb.Tolerances.FromString(RULED.SerializeToString())
    recorded.headroom[2].honest.rms = 1.2
    errors = measured("op", "rope", rms=0.5, max=2.0, row=1.0, head=1.0)
    assert proposed(recorded, rows(recorded, errors)).headroom[2].honest.rms == 1.2


def test_a_number_is_loosened_only_as_far_as_the_measurement_says() -> None:
    table = proposed(RULED, rows(RULED, measured("op", "rope", rms=1.9)))
    assert table.headroom[2].rms == 4 and table.headroom[1].rms == 4


def test_a_number_is_never_loosened_into_a_seeded_bug() -> None:
    found = rows(RULED, measured("op", "rope", rms=1.9), {("op", "rope"): 2.2})
    with pytest.raises(ValueError, match=r"honest runs need 4, the smallest seeded bug allows 3\.3"):
        proposed(RULED, found)


def test_the_larger_of_two_runs_counts() -> None:
    assert worst([measured("op", "rope", rms=1.0), measured("op", "rope", rms=2.0)])[Key("op", "rope", "rms")][0] == 2


def test_the_table_is_written_as_it_is_read() -> None:
    assert text_format.Parse(written(RULED, "# head\n\n"), pb.Tolerances()) == RULED


def test_the_smallest_bug_counts_with_the_case_that_shows_it_most(tmp_path: Path) -> None:
    cases = [[{"caught": True, "share": 5}, {"caught": True, "share": 17}], [{"caught": True, "share": None}]]
    path = tmp_path / "mutants.json"
    path.write_text(json.dumps({"mutants": [{"cases": one} for one in cases]}))
    assert smallest(path) == {("run", ""): 17}


def test_a_file_without_seeded_bugs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(ParityError, match="no outcomes of seeded bugs"):
        smallest(tmp_path / "other.json")


def test_a_run_is_measured_in_floors_and_its_ops_in_units(tmp_path: Path) -> None:
    sdpa = next(one for one in VARIATIONS if one.name == "sdpa")
    (outcome,) = run(sdpa, [GOLDEN_ROOT / "cases" / "encdec" / "qwen2.pb"], tmp_path)
    errors = errors_of(outcome.verdicts, outcome.ops, "sdpa")
    of_linears = errors[Key("run", "linear", "rms")]
    assert 0 < of_linears.error < 4 and "sdpa, encdec/qwen2: " in of_linears.where
    assert 0 < errors[Key("op", "linear", "rms")].error < 4


def test_the_command_prints_what_honest_runs_use(tmp_path: Path) -> None:
    done = CliRunner().invoke(budgets, ["--variation", "sdpa", "--only", "encoder/one_token"])
    assert done.exit_code == 0, done.output
    assert "rms" in done.output and "%" in done.output


def test_the_command_leaves_the_table_alone_unless_it_is_told_to_write() -> None:
    before = TOLERANCES.read_bytes()
    CliRunner().invoke(budgets, ["--variation", "sdpa", "--only", "encoder/one_token"])
    assert TOLERANCES.read_bytes() == before


def test_every_row_of_the_table_has_four_numbers() -> None:
    table = text_format.Parse(TOLERANCES.read_text(), pb.Tolerances())
    assert all(math.isfinite(n) and n > 0 for one in table.headroom for n in (one.rms, one.max, one.row, one.head))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_honest_runs_use_at_most_half_of_every_headroom_and_none_is_slack(tmp_path: Path) -> None:
    table = text_format.Parse(TOLERANCES.read_text(), pb.Tolerances())
    outcomes = (one for each in VARIATIONS for one in run(each, network_goldens(), tmp_path / each.name))
    measured = worst(errors_of(one.verdicts, one.ops, one.variation) for one in outcomes)
    wrong = [f"{one.kind} {one.op} {one.measure}: {one.problems}" for one in rows(table, measured) if one.problems]
    assert not wrong
