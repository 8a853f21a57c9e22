"""Rows of a batch, or steps, in another order are no bug where all is right in the golden's; else they are one."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from rich.console import Console

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pb, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose
from qwen3_parity.report.diagnoses import terminal

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
CASES = ["model/qwen3_moe", "llama/ragged_decode"]
CACHED = re.compile(r"\.(cache_\w+|key|value|probs|mask|scores)$")
"""Taps that are longer in each step."""
ROWS = {"batch", "row"}
"""Axes that rows of a batch stand in; experts' taps have rows and positions in one."""


@cache
def golden(name: str) -> Recording:
    return read(GOLDEN_ROOT / f"cases/{name}.pb", digests=True)


def sorted_otherwise(name: str, staying: Collection[str] = ()) -> Recording:
    """Hugging Face's own run with the batch's rows from the last to the first, but for what is `staying`."""
    tensors = list[Tensor]()
    for item in golden(name):
        info, axes = pb.Tensor(), list(item.info.axes)
        info.CopyFrom(item.info)
        info.ClearField("floor")
        array, moves = item.array, ROWS & {*axes} and item.info.name not in staying
        if moves and not item.info.name.startswith("input."):
            at = next(number for number, axis in enumerate(axes) if axis in ROWS)
            rows = np.split(array, golden(name)["logits", 0].array.shape[0], at)
            array = np.concatenate(rows[::-1], at)
        tensors.append(Tensor(info, array))
    run = pb.Run(arithmetic=golden(name).run.arithmetic, backend=pb.FOREIGN)
    return replace(golden(name), tensors=tensors, run=run, graph=pb.Graph(), source="mine.pb")


def diagnosed(name: str, candidate: Recording) -> Diagnosis:
    return diagnose(golden(name), candidate, weights_of(golden(name), CHECKPOINTS))


@pytest.mark.parametrize("name", CASES)
def test_rows_in_another_order_are_said_and_nobody_is_blamed(name: str) -> None:
    diagnosis = diagnosed(name, sorted_otherwise(name))
    rows = golden(name)["logits", 0].array.shape[0]
    assert not diagnosis.faults and diagnosis.verdicts.exit_code == 1
    assert [(each.place, each.order) for each in diagnosis.misplaced] == [("every tap", tuple(reversed(range(rows))))]
    rules = {problem.rule for problem in diagnosis.verdicts.problems}
    assert "has the rows of the batch in another order" in rules
    assert str(diagnosis.misplaced[0]).startswith("every tap: has the rows of the batch in another order: the golden's")
    console = Console(width=300)
    with console.capture() as text:
        console.print(terminal(diagnosis))
    assert text.get().count("in another order") == 1


@pytest.mark.parametrize("name", CASES)
def test_steps_in_another_order_are_said_too(name: str) -> None:
    """The last two, which have one length."""
    last = len(golden(name).case.steps) - 1
    order = {last: last - 1, last - 1: last}
    tensors = list[Tensor]()
    for item in golden(name):
        if not item.info.name.startswith(("input.", "cache.")) and not CACHED.search(item.info.name):
            step = order.get(item.info.step, item.info.step)
            tensors.append(Tensor(pb.Tensor(name=item.info.name, step=step, dtype=item.info.dtype), item.array))
    run = pb.Run(arithmetic=golden(name).run.arithmetic, backend=pb.FOREIGN)
    candidate = replace(golden(name), tensors=tensors, run=run, graph=pb.Graph(), source="mine.pb")
    diagnosis = diagnosed(name, candidate)
    assert not diagnosis.faults
    assert [(each.of, each.order) for each in diagnosis.misplaced] == [
        ("steps", (*range(last - 1), last, last - 1)),
    ]


def test_rows_that_are_exchanged_at_one_place_are_a_bug() -> None:
    """The embeddings alone are another row's: what goes on with them is the golden's."""
    name = CASES[0]
    others = {item.info.name for item in golden(name)} - {"model.embed_tokens"}
    diagnosis = diagnosed(name, sorted_otherwise(name, others))
    assert "model.embed_tokens" in {fault.fault.place for fault in diagnosis.faults} | {
        each.place for each in diagnosis.misplaced
    }
    assert not any(each.order for each in diagnosis.misplaced)


def test_what_is_infinite_in_both_is_no_difference() -> None:
    """DeepSeek-V4's compressor hides blocks by -inf: rows in another order are seen there, too."""
    name, tap = CASES[0], "model.embed_tokens"

    def hidden(recording: Recording, row: int) -> Recording:
        tensors = list[Tensor]()
        for item in recording:
            if item.key == (tap, 0):
                array = item.array.copy()
                array[row, 0, 0] = -np.inf
                item = Tensor(item.info, array)
            tensors.append(item)
        return replace(recording, tensors=tensors)

    rows = golden(name)["logits", 0].array.shape[0]
    expected, actual = hidden(golden(name), 0), hidden(sorted_otherwise(name), rows - 1)
    diagnosis = diagnose(expected, actual, weights_of(golden(name), CHECKPOINTS))
    assert [(each.place, each.order) for each in diagnosis.misplaced] == [("every tap", tuple(reversed(range(rows))))]
