"""Weights that a candidate holds in a form of its own are no divergence where all that is computed is right."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small import PARAMETERS, WIDTH, Values, golden, recording, run, weights

from qwen3_golden import Array, Recording, pb, tensor
from qwen3_parity.check import check
from qwen3_parity.diagnosis import diagnose
from qwen3_reference.checkpoints.parameters_of_run import ParametersOfRun
from qwen3_reference.checkpoints.stored import Stored

TABLES = ("embed.weight", "layers.0.experts.weight")


def parameters(tensors: dict[str, Array]) -> list[pb.Parameter]:
    return [
        pb.Parameter(name=name, dtype=pb.F32, shape=array.shape, sha256=hashlib.sha256(array.tobytes()).digest())
        for name, array in tensors.items()
    ]


def says(change: dict[str, Array], values: Values | None = None) -> tuple[str, tuple[str, ...], list[str]]:
    """The verdict on a run that loaded these parameters in a changed form: its word, its notes, its rules."""
    original: Recording = replace(golden(), parameters=parameters(weights()))
    candidate = replace(recording(run({}) if values is None else values, "port"),
                        parameters=parameters(weights() | change))  # fmt: skip
    verdicts = check(original, candidate, weights())
    return verdicts.word, tuple(verdicts.notes), [problem.rule for problem in verdicts.problems]


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name not in TABLES])
def test_a_matrix_in_another_form_is_a_note_where_every_tap_is_right(name: str) -> None:
    word, notes, _ = says({name: weights()[name] + np.float32(1)})
    assert word == "parity"
    assert notes == (f"1 parameter is loaded in a form of the candidate's own, and right in use: {name}",)


@pytest.mark.parametrize("name", TABLES)
def test_nobody_excuses_the_rows_of_a_table_that_are_not_read(name: str) -> None:
    word, _, rules = says({name: weights()[name] + np.float32(1)})
    assert word == "divergence" and rules == [f"checkpoint as loaded differs: {name}"]


def test_a_table_times_the_root_of_its_width_is_known() -> None:
    word, _, _ = says({"embed.weight": weights()["embed.weight"] * np.float32(WIDTH**0.5)})
    assert word == "parity"


def test_in_half_precision_which_hides_small_changes_nothing_is_excused() -> None:
    change = {"head.weight": weights()["head.weight"] * np.float32(1 + 2.0**-20)}
    for arithmetic, word in ((pb.ARITHMETIC_F32, "parity"), (pb.ARITHMETIC_BF16, "divergence")):
        original = replace(golden(), parameters=parameters(weights()))
        mine = recording(run({}), "port")
        candidate = replace(mine, parameters=parameters(weights() | change), run=pb.Run(arithmetic=arithmetic))
        assert check(original, candidate, weights()).word == word


def test_where_a_tap_is_wrong_or_the_result_is_missing_nothing_is_excused() -> None:
    change = {"head.weight": weights()["head.weight"] * np.float32(1.01)}
    wrong = run({}, weights() | change)
    word, _, rules = says(change, wrong)
    assert word == "divergence" and "checkpoint as loaded differs: head.weight" in rules
    fewer = {name: value for name, value in run({}).items() if name != "logits"}
    assert "checkpoint as loaded differs: head.weight" in says(change, fewer)[2]


@pytest.mark.parametrize(("added", "word"), [(1.0, "parity"), (1.0 + 2.0**-20, "divergence")])
def test_in_half_precision_recorded_numbers_that_are_the_checkpoints_plus_1_are_a_fold(added: float, word: str) -> None:
    folded = weights()["head.weight"] + np.float32(added)
    original = replace(golden(), parameters=parameters(weights()))
    candidate = recording(run({}), "port")
    candidate = replace(
        candidate,
        tensors=[*candidate, tensor("parameter.head.weight", folded)],
        parameters=parameters(weights() | {"head.weight": folded}),
        run=pb.Run(arithmetic=pb.ARITHMETIC_BF16),
    )
    assert check(original, candidate, weights()).word == word


def of_a_run_in_half_precision() -> tuple[Recording, ParametersOfRun]:
    """A golden whose run rounded a checkpoint of float32 to bfloat16, and its parameters."""
    stored = {name: Stored(pb.F32, array, Path()) for name, array in weights().items()}
    held = ParametersOfRun({name: ([item], item.bits.shape, pb.BF16) for name, item in stored.items()})
    rounded = {name: np.asarray(held[name]) for name in held}
    digests = [
        pb.Parameter(name=name, dtype=pb.BF16, shape=item.bits.shape,
                     sha256=hashlib.sha256(item.loaded(pb.BF16).tobytes()).digest())
        for name, item in stored.items()
    ]  # fmt: skip
    mine = recording(run({}, rounded), "qwen3_reference", floors=dict.fromkeys(run({}), pb.Floor(rms=1e-3, max=1e-2)))
    return replace(mine, parameters=digests, run=pb.Run(arithmetic=pb.ARITHMETIC_BF16)), held


def test_a_run_in_float32_is_judged_by_the_parameters_that_a_golden_in_half_precision_rounded() -> None:
    half, held = of_a_run_in_half_precision()
    candidate = replace(recording(run({}), "port"), parameters=parameters(weights()))
    diagnosis = diagnose(half, candidate, held)
    assert [problem.rule for problem in diagnosis.verdicts.structural] == [
        "4 parameters are the checkpoint's in float32, which the golden's run rounded to bfloat16"
    ]
    assert not diagnosis.faults and not diagnosis.parameters
    assert diagnosis.meaning[0].startswith("every op is right on its own inputs in float32")


def test_a_mistake_in_such_a_run_is_blamed_alone() -> None:
    half, held = of_a_run_in_half_precision()
    wrong = run({"layers.0": lambda values: {"layers.0": values["embed"] * 2 + values["layers.0.experts"]}})
    candidate = replace(recording(wrong, "port"), parameters=parameters(weights()))
    assert [fault.fault.place for fault in diagnose(half, candidate, held).faults] == ["layers.{layer}"]


def test_a_parameter_of_float32_that_is_not_the_checkpoints_is_another() -> None:
    half, held = of_a_run_in_half_precision()
    change = {"head.weight": weights()["head.weight"] * np.float32(1.01)}
    candidate = replace(recording(run({}, weights() | change), "port"), parameters=parameters(weights() | change))
    verdicts = check(half, candidate, held)
    assert "checkpoint as loaded differs: head.weight" in [problem.rule for problem in verdicts.structural]
