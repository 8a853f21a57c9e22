"""Greedy ids of one's own checkpoint: captured as a golden, and a candidate with ids alone judged by it.

It runs `checkpoints.greedy`, too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pb, read, tensor, write
from qwen3_parity.check import check
from qwen3_parity.cli import main
from qwen3_parity.judge.choices import first_flip

CHECKPOINT = GOLDEN_ROOT / "checkpoints" / "tied-decoder"
NEW = 6


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def captured(out: Path, *more: object, model: Path = CHECKPOINT) -> Recording:
    request = ("capture", "--model", model, "--target-ids", "5,6,7;8,9", "--generate", NEW, "--out", out)
    result = run(*request, *more)
    assert result.exit_code == 0, result.output
    return read(out / "request.pb")


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return captured(tmp_path_factory.mktemp("greedy"))


def ids_alone(golden: Recording, others: Mapping[tuple[int, int], int]) -> Recording:
    """A candidate that shows its ids and nothing else, some of them others."""
    ids = golden["generated_ids", 0].array.copy()
    for at, token in others.items():
        ids[at] = token
    inputs = [item for item in golden if item.info.name.startswith("input.")]
    shown = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=["generated_ids"])
    return replace(golden, tensors=[*inputs, tensor("generated_ids", ids)], run=shown, parameters=[])


def ranked(golden: Recording, row: int, new: int) -> list[int]:
    """The tokens by the golden's logits for one choice, best first; the prompt is one step."""
    return [int(token) for token in np.argsort(-golden["logits", new].array[row, -1])]


def with_margin(golden: Recording, row: int, new: int, floors: float) -> Recording:
    """The golden with its two best logits at one choice so many noise floors apart."""
    best, second, *_ = ranked(golden, row, new)

    def moved(item: Tensor) -> Tensor:
        if item.key != ("logits", new):
            return item
        values = item.array.copy()
        values[row, -1, second] = values[row, -1, best] - floors * max(
            item.info.own_angles_floor.max, item.info.floor.max
        )
        return Tensor(item.info, values)

    return replace(golden, tensors=[moved(item) for item in golden])


def test_the_captured_ids_are_the_best_tokens_of_the_captured_logits(golden: Recording) -> None:
    ids = golden["generated_ids", 0].array
    assert ids.shape == (2, NEW) and list(golden.case.steps) == [3, *[1] * (NEW - 1)]
    assert ids.tolist() == [[ranked(golden, row, new)[0] for new in range(NEW)] for row in range(2)]


def test_our_implementation_passes_a_golden_of_greedy_ids(golden: Recording, tmp_path: Path) -> None:
    ours = tmp_path / "ours.pb"
    assert run("record", golden.source, "--model", CHECKPOINT, "--out", ours).exit_code == 0
    assert run("check", golden.source, ours).exit_code == 0


def test_a_row_ends_where_the_checkpoint_says_that_it_ends(golden: Recording, tmp_path: Path) -> None:
    model, ids = tmp_path / "model", golden["generated_ids", 0].array
    shutil.copytree(CHECKPOINT, model)
    stop = {"eos_token_id": [int(ids[0, 1])], "pad_token_id": 3}
    (model / "generation_config.json").write_text(json.dumps(stop), encoding="utf-8")
    recording, length = captured(tmp_path, model=model), ids[0].tolist().index(ids[0, 1]) + 1
    assert list(recording.case.generation.eos_token_id) == stop["eos_token_id"]
    assert recording["generated_ids", 0].array[0].tolist() == [*ids[0, :length].tolist(), *[3] * (NEW - length)]


def test_a_generation_config_that_is_none_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(CHECKPOINT, model)
    (model / "generation_config.json").write_text('{"eos_token_id": "</s>"}', encoding="utf-8")
    result = run("capture", "--model", model, "--target-ids", "5,6", "--generate", 2, "--out", tmp_path)
    assert (result.exit_code, "eos_token_id" in result.output) == (2, True)


@pytest.mark.parametrize("request_", [["--source-ids", "5,6"], ["--target-ids", "5,6", "--prefill", "1"]])
def test_generation_needs_a_prompt_that_is_fed_at_once(request_: list[str], tmp_path: Path) -> None:
    result = run("capture", "--model", CHECKPOINT, *request_, "--generate", 2, "--out", tmp_path)
    assert (result.exit_code, "--generate" in result.output) == (2, True)


def test_the_same_ids_alone_are_right_as_far_as_they_go(golden: Recording, tmp_path: Path) -> None:
    verdicts = check(golden, ids_alone(golden, {}))
    assert (verdicts.word, verdicts.problems) == ("partial", [])
    file = tmp_path / "ids.pb"
    write(file, ids_alone(golden, {}))
    assert (run("check", golden.source, file).exit_code, run("check", golden.source, file, "--partial").exit_code) == (
        1,
        0,
    )


def test_the_first_other_token_is_shown_with_its_margin_in_logits(golden: Recording) -> None:
    token = ranked(golden, 1, 2)[3]
    logits = golden["logits", 2].array[1, -1]
    (problem,) = check(golden, ids_alone(golden, {(1, 2): token, (1, 3): 0, (0, 5): ranked(golden, 0, 5)[7]})).problems
    margin = logits.max() - logits[token]
    assert problem.rule == "another token than the reference chooses, and no near-tie"
    assert f"token {logits.argmax()} at [1, 2]" in problem.expected
    assert f"token {token}" in problem.got and f"{margin:.3g}" in problem.got and "noise floor" in problem.got


@pytest.mark.parametrize(("floors", "word"), [(8.0, "near-tie"), (1000.0, "divergence")])
def test_a_flip_is_a_near_tie_when_noise_may_have_made_it(golden: Recording, floors: float, word: str) -> None:
    close = with_margin(golden, 0, 1, floors)
    second = ranked(golden, 0, 1)[1]
    assert check(close, ids_alone(close, {(0, 1): second, (0, 2): 0, (0, 3): 0})).word == word


def test_a_near_tie_of_one_row_excuses_no_other(golden: Recording) -> None:
    close = with_margin(golden, 0, 1, 8.0)
    flips = {(0, 1): ranked(golden, 0, 1)[1], (1, 4): ranked(close, 1, 4)[9]}
    (problem,) = check(close, ids_alone(close, flips)).problems
    assert (problem.fault, "[1, 4]" in problem.expected) == ("candidate", True)


def test_the_logits_of_the_choices_are_captured_whatever_taps_are_asked_for(tmp_path: Path) -> None:
    recording = captured(tmp_path, "--taps", "*.output", "--no-floors")
    assert [item.info.step for item in recording if item.info.name == "logits"] == list(range(NEW))


def test_tokens_are_chosen_behind_a_source_too(tmp_path: Path) -> None:
    recording = captured(tmp_path, "--source-ids", "4,3,2;7,1", "--taps", "logits")
    assert recording.case.mode == pb.ENCODER_DECODER
    assert run("record", recording.source, "--model", CHECKPOINT, "--out", tmp_path / "ours.pb").exit_code == 0
    assert run("check", recording.source, tmp_path / "ours.pb").exit_code == 0


def test_penalised_ids_are_excused_by_the_smallest_margin() -> None:
    greedy = read(GOLDEN_ROOT / "cases" / "generation" / "greedy.pb")
    case = pb.Case.FromString(greedy.case.SerializeToString())
    case.generation.repetition_penalty, case.smallest_margin = 1.2, 1e-12
    close = replace(greedy, case=case)
    assert check(close, ids_alone(close, {(0, 0): 5})).word == "near-tie"


@pytest.mark.parametrize("token", [-1, 211, 10**9])
def test_a_token_that_is_none_is_no_near_tie(golden: Recording, token: int) -> None:
    close = with_margin(golden, 0, 1, 8.0)
    assert check(close, ids_alone(close, {(0, 1): token})).word == "divergence"


def tied() -> tuple[Recording, Recording]:
    """A golden in which two best logits of row 1 are equal at choice 4, and a candidate that takes the higher id."""
    equal = read(GOLDEN_ROOT / "cases" / "generation" / "equal_logits.pb")
    return equal, ids_alone(equal, {(1, 4): 31})


def test_of_equal_logits_nobody_says_that_noise_chose_without_the_candidates() -> None:
    """Other kernels may honestly have them unequal: without the candidate's own nobody knows."""
    verdicts = check(*tied())
    (problem,) = verdicts.problems
    assert (verdicts.word, problem.expected) == ("near-tie", "token 30 at [1, 4], the lower id")
    assert "lower id" in problem.rule and "are equal. The candidate's are not recorded in float32" in problem.got


@pytest.mark.parametrize(("moved", "word"), [(0, "divergence"), (-1e-6, "divergence"), (1e-6, "near-tie")])
def test_the_candidates_own_logits_say_whether_the_higher_of_equals_is_a_mistake(moved: float, word: str) -> None:
    equal, candidate = tied()
    logits = [
        tensor("logits", item.array.copy(), step=item.info.step, axes=item.info.axes, op=item.info.op)
        for item in equal
        if item.info.name == "logits"
    ]
    step = len(logits) - equal["generated_ids", 0].array.shape[1] + 4
    logits[step].array[1, -1, 31] += np.float32(moved)
    candidate.run.materialised.append("logits")
    verdicts = check(equal, replace(candidate, tensors=[*candidate, *logits]))
    (problem,) = verdicts.problems
    assert (verdicts.word, "near-tie" in problem.rule) == (word, word == "near-tie")
    assert ("equal, too" in problem.got) == (moved == 0) and (" apart" in problem.got) == (moved != 0)


def test_logits_that_a_narrower_type_made_equal_do_not_tell() -> None:
    equal, candidate = tied()
    logits = [
        tensor("logits", item.array.astype(np.float16), step=item.info.step, axes=item.info.axes)
        for item in equal
        if item.info.name == "logits"
    ]
    narrow = replace(candidate, tensors=[*candidate, *logits])
    flip = first_flip(narrow["generated_ids", 0].values(), equal, narrow)
    assert flip is not None and np.isnan(flip.theirs) and flip.near_tie
