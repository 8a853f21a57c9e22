"""A run that is off though every op is right by itself: the diagnosis says what that means and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.check import check_run
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.faults import blame
from qwen3_parity.diagnosis.right_alone import meaning
from qwen3_parity.recording.ours.network import factory
from qwen3_parity.recording.record import record
from qwen3_parity.report import diagnoses as pages
from qwen3_parity.report.terminal import console

ULPS = 6


@pytest.fixture(scope="module")
def golden() -> Recording:
    return read(GOLDEN_ROOT / "cases" / "long" / "position_32768.pb")


@pytest.fixture(scope="module")
def moved(golden: Recording, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Our implementation with frequencies that are some ulp too large."""

    def build(case, checkpoints):
        runner = factory()(case, checkpoints)
        for module in runner.model.modules():
            if hasattr(module, "inv_freq"):
                module.inv_freq = torch.from_numpy((module.inv_freq.numpy().view(np.int32) + ULPS).view(np.float32))
        return runner

    path: Path = tmp_path_factory.mktemp("moved") / "moved.pb"
    record(golden, path, build)
    return read(path)


def hiding(recording: Recording, *names: str) -> Recording:
    """A recording of a port that has no such taps."""

    def shown(name: str) -> bool:
        return name.rpartition(".")[2] not in names

    run = pb.Run.FromString(recording.run.SerializeToString())
    del run.materialised[:]
    run.materialised.extend(filter(shown, recording.run.materialised))
    return replace(recording, tensors=[item for item in recording if shown(item.info.name)], run=run)


def said(golden: Recording, candidate: Recording) -> list[str]:
    diagnosis = diagnose(golden, candidate, weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    assert diagnosis.verdicts.exit_code == 1 and not diagnosis.faults
    return list(diagnosis.meaning)


def test_a_run_with_other_angles_is_said_to_have_no_wrong_op(golden: Recording, moved: Recording) -> None:
    (only,) = said(golden, hiding(moved, "inv_freq"))  # the angles speak for themselves
    assert "no op that could be judged by itself is wrong" in only


def test_terminal_and_json_say_what_it_means(golden: Recording, moved: Recording) -> None:
    weights = weights_of(golden, GOLDEN_ROOT / "checkpoints")
    diagnosis = diagnose(golden, hiding(moved, "inv_freq"), weights)
    with (shown := console()).capture() as text:
        shown.print(pages.terminal(diagnosis))
    words = " ".join(text.get().split())
    assert diagnosis.meaning and pages.to_json(diagnosis)["meaning"] == list(diagnosis.meaning)
    assert all(" ".join(line.split()) in words for line in diagnosis.meaning)


def narrow(recording: Recording, name: str) -> Recording:
    """A golden whose floor at a tap is a thousandth."""
    tensors = []
    for item in recording:
        info = type(item.info).FromString(item.info.SerializeToString())
        if info.name == name:
            floor = info.floor
            info.floor.CopyFrom(pb.Floor(rms=floor.rms / 1e3, max=floor.max / 1e3, row=floor.row / 1e3, head=0))
        tensors.append(replace(item, info=info))
    return replace(recording, tensors=tensors)


def nudged(world, name):
    def change(array):
        array[0, 0, 0] = np.nextafter(array[0, 0, 0], np.float32(np.inf))

    return world.changed(name, change)


def test_an_op_that_could_not_be_judged_is_named_with_what_to_record(world) -> None:
    golden, candidate = narrow(world.golden, "logits"), nudged(world, "logits")
    blamed = blame(TapJudge.of(candidate, world.weights, golden))
    alone = [
        replace(verdict, reason="an input was not recorded") if verdict.name == "logits" else verdict
        for verdict in blamed.alone
    ]
    (_, unjudged) = meaning(check_run(golden, candidate), replace(blamed, alone=alone), None)
    assert unjudged.startswith("not judged by itself, so the mistake may be there: logits (an input was not recorded)")


def test_roundings_that_add_up_are_said_to_with_the_op_that_has_most(world) -> None:
    diagnosis = diagnose(narrow(world.golden, "logits"), nudged(world, "logits"), world.weights)
    assert diagnosis.verdicts.exit_code == 1 and not diagnosis.faults
    assert (
        "the roundings of all ops add up" in diagnosis.meaning[-1] and "of its own headroom" not in diagnosis.meaning[0]
    )


def test_a_wrong_op_needs_no_such_words(world) -> None:
    doubled = world.holding("logits", world.golden["logits", 0].array * 2)
    diagnosis = diagnose(world.golden, doubled, world.weights)
    assert diagnosis.faults and not diagnosis.meaning
