"""What a lossy candidate predicts: divergence in nats, ranks that know ties, the first position that flips."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from qwen3_golden import GOLDEN_ROOT, pb, read, tensor, write
from qwen3_parity.check import check
from qwen3_parity.cli import main
from qwen3_parity.judge.predictions import divergence, predictions, rank, shared

ROWS = st.lists(st.floats(-20, 20), min_size=2, max_size=40)


def test_the_divergence_is_summed_over_the_vocabulary_in_nats():
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25])
    assert divergence(np.log(p), np.log(q)) == pytest.approx(0.5 * np.log(2) - 0.25 * np.log(2))


@given(ROWS, st.floats(-50, 50))
def test_logits_that_are_shifted_diverge_by_nothing(row, offset):
    expected = np.array(row)
    assert divergence(expected, expected + offset) < 1e-12


@given(ROWS, st.randoms())
def test_a_divergence_is_never_negative(row, random):
    actual = np.array(random.sample(row, len(row)))
    assert divergence(np.array(row), actual) >= 0


def test_a_token_that_the_candidate_rules_out_diverges_far_but_finitely():
    assert 90 < divergence(np.array([0.0, -100.0]), np.array([-100.0, 0.0])) < 110


def test_ranks_count_strictly_better_tokens():
    assert rank(np.array([1.0, 3.0, 2.0]), np.array([5.0, 3.0, 4.0])) == 3


def test_a_tie_with_the_best_is_rank_one():
    assert rank(np.array([1.0, 3.0, 2.0]), np.array([3.0, 3.0, 1.0])) == 1


def test_of_several_best_tokens_the_best_placed_one_counts():
    assert rank(np.array([3.0, 3.0, 2.0]), np.array([0.0, 3.0, 1.0])) == 1


def test_the_best_tokens_in_common_are_counted():
    assert shared(np.array([4.0, 3, 2, 1]), np.array([4.0, 1, 2, 3]), 2) == 1


def test_a_tie_at_the_end_of_the_best_counts_as_in():
    assert shared(np.array([4.0, 3, 3, 1]), np.array([4.0, 1, 3, 2]), 2) == 2


def test_the_golden_predicts_itself(world):
    metrics = predictions(world.golden, world.golden)
    assert (metrics.mean_kl, metrics.top_1, metrics.top_10, metrics.worst_rank, metrics.first_divergent) == (
        0,
        1,
        1,
        1,
        None,
    )


def test_only_judged_positions_count(world):
    # Row 1 is padded on the left: 3 and 2 positions in the prefill, one each in the decode step.
    assert len(predictions(world.golden, world.golden).tokens) == 3 + 2 + 2


def test_the_first_flip_is_the_earliest_position(world):
    def flip(logits):
        logits[0, 2] = -logits[0, 2]
        logits[1, 1] = -logits[1, 1]

    first = predictions(world.golden, world.changed("logits", flip)).first_divergent
    assert first is not None
    assert (first.step, first.row, first.position) == (0, 1, 1)


def test_a_flip_does_not_end_the_comparison(world):
    def flip(logits):
        logits[0, 0] = -logits[0, 0]

    metrics = predictions(world.golden, world.changed("logits", flip))
    assert [token.kl > 0 for token in metrics.tokens] == [True] + [False] * 6
    assert metrics.worst == metrics.tokens[0]


def test_what_stands_in_padding_is_not_looked_at(world):
    def spoil(logits):
        logits[1, 0] = np.nan

    assert predictions(world.golden, world.changed("logits", spoil)).mean_kl == 0


@pytest.mark.parametrize("spoilt", ["missing", "shape", "nan"])
def test_there_are_no_predictions_where_logits_cannot_be_compared(world, spoilt):
    if spoilt == "missing":
        candidate = world.without("logits", 1)
    elif spoilt == "shape":
        candidate = world.holding("logits", world.golden["logits", 1].array[:, :, :-1], 1)
    else:
        candidate = world.changed("logits", lambda logits: logits.fill(np.nan), 1)
    assert predictions(world.golden, candidate) is None
    run = world.with_run(arithmetic=pb.ARITHMETIC_OTHER).run
    assert check(world.golden, replace(candidate, run=run)).word == "divergence"  # and no refusal


def test_there_are_no_predictions_where_a_golden_has_no_logits(world):
    bare = replace(world.golden, tensors=[item for item in world.golden if item.info.name != "logits"])
    assert predictions(bare, bare) is None


@pytest.fixture
def quantised(tmp_path):
    """A committed golden's recording with logits on a coarse grid, as arithmetic that has no claim to parity."""
    golden = read(GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb")

    def coarse(item):
        if item.info.name != "logits":
            return item
        return tensor("logits", np.round(item.array * 4) / 4, step=item.info.step, axes=item.info.axes, op="linear")

    run = pb.Run.FromString(golden.run.SerializeToString())
    run.arithmetic = pb.ARITHMETIC_OTHER
    path = tmp_path / "quantised.pb"
    write(path, replace(golden, tensors=[coarse(item) for item in golden], run=run))
    return str(path)


@pytest.fixture
def said(quantised):
    """Of the recording, and of the folder that it is in."""
    lone = json.loads(CliRunner().invoke(main, ["check", quantised, "--json"]).output)
    folder = json.loads(CliRunner().invoke(main, ["check", str(Path(quantised).parent), "--json"]).output)
    return lone["predictions"], folder["cases"][0]["predictions"]


def test_json_has_every_position_of_a_candidate_without_a_claim_to_parity(said):
    lone, folder = said
    assert (lone["tokens"], len(lone["positions"])) == (22, 22)
    assert 0 < lone["mean_kl"] < 0.1 and lone["worst_kl"] >= lone["mean_kl"]
    assert folder == lone


def test_check_says_what_a_candidate_without_a_claim_to_parity_predicts(quantised):
    done = CliRunner().invoke(main, ["check", quantised])
    assert done.exit_code == 1 and "nats a token" in done.output and "KL, nats" not in done.output
    assert CliRunner().invoke(main, ["check", quantised, "-v"]).output.partition("KL, nats")[2].count("\n") == 23


def test_a_candidate_with_a_claim_to_parity_has_no_predictions():
    golden = str(GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb")
    assert "nats" not in CliRunner().invoke(main, ["check", golden]).output
    assert json.loads(CliRunner().invoke(main, ["check", golden, "--json"]).output)["predictions"] is None


def test_a_golden_with_a_graph_has_predictions_too():
    golden = read(GOLDEN_ROOT / "cases" / "model" / "gemma3.pb")
    run = pb.Run.FromString(golden.run.SerializeToString())
    run.arithmetic = pb.ARITHMETIC_OTHER
    metrics = check(golden, replace(golden, run=run)).predictions
    assert metrics is not None and metrics.worst.kl == 0


@pytest.mark.parametrize("name", ["gemma3", "reranker"])
def test_by_a_golden_with_a_graph_padding_counts_in_no_prediction(name):
    golden = read(GOLDEN_ROOT / "cases" / "model" / f"{name}.pb")
    real = golden["input.attention_mask", 0].array.astype(bool)

    def spoilt(item):
        if item.info.name != "logits":
            return item
        stop = sum(golden.case.steps[: item.info.step + 1])
        here = real[:, stop - item.array.shape[1] : stop]
        return replace(item, array=np.where(here[..., None], item.array, item.array[..., ::-1]))

    metrics = predictions(golden, replace(golden, tensors=[spoilt(item) for item in golden]))
    assert not real.all() and len(metrics.tokens) == real.sum()
    assert (metrics.worst.kl, metrics.first_divergent) == (0, None)
