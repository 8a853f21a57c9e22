"""What is wrong at padding alone is said where real tokens come of it: a recurrence that reads padding as tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.qwen3_next import modeling_qwen3_next as modeling

import qwen3_parity
from detection.families.patch import changed
from qwen3_golden import GOLDEN_ROOT, Array, Recording, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.at_padding import at_padding
from qwen3_parity.slices.check import judged_by_graph
from qwen3_reference.caches import CACHE
from qwen3_reference.graph.load import load

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
LINE = "apply_mask_to_padding_states"


@cache
def golden() -> Recording:
    return read(GOLDEN_ROOT / "cases" / "model/qwen3_next.pb", digests=True)


@cache
def weights() -> dict[str, Array]:
    return dict(weights_of(golden(), CHECKPOINTS))


def candidate(folder: Path) -> Recording:
    """What the golden's own model gives at its modules."""
    model: Any = load(CHECKPOINTS / golden().case.checkpoint[0].name, torch.float32)
    case, states = qwen3_parity.golden("model/qwen3_next"), None
    with torch.no_grad(), qwen3_parity.record(model, case, path=folder / "mine.pb") as recording:
        for step in case.steps:
            states = model(**step, **{CACHE: states}, use_cache=True)[CACHE]
    return read(recording.path)


@contextmanager
def padding_as_tokens() -> Iterator[None]:
    keep: Callable[..., Any] = lambda hidden_states, _: hidden_states  # noqa: E731
    with changed(modeling, LINE, keep):
        yield


def test_padding_that_a_recurrence_reads_is_named_with_its_line(tmp_path: Path) -> None:
    with padding_as_tokens():
        diagnosis = diagnose(golden(), candidate(tmp_path), weights())
    assert diagnosis.verdicts.exit_code == 1
    (sentence,) = diagnosis.meaning
    assert "at padding model.layers.0.linear_attn.in_proj_" in sentence and "reads that" in sentence
    places = [fault.fault.place for fault in diagnosis.faults]
    assert places and all(".linear_attn.in_proj_" in place for place in places)
    for fault in diagnosis.faults:
        assert fault.explanations[0].name == "edit.left_out" and LINE in fault.explanations[0].says


def test_an_honest_run_has_nothing_at_padding(tmp_path: Path) -> None:
    assert at_padding(judged_by_graph(golden(), candidate(tmp_path), weights())) is None


@pytest.mark.parametrize("moved", [False, True])
def test_padding_that_nobody_reads_is_no_cause(tmp_path: Path, moved: bool) -> None:
    """Other numbers at padding of an MLP, beside a run that is off for another reason or is not."""
    mine = candidate(tmp_path)
    pads = golden()["input.attention_mask", 0].array[:, : golden().case.steps[0]] == 0
    assert pads.any()

    def otherwise(name: str, array: Array) -> Array:
        array = np.array(array)
        if name.endswith(".mlp.shared_expert.up_proj") and array.shape[:2] == pads.shape:
            array[pads] += 1
        return array * (1 + 1e-3 * (moved and name == "logits"))

    tensors = [replace(item, array=otherwise(item.info.name, item.array)) for item in mine]
    judged = judged_by_graph(golden(), replace(mine, tensors=tensors), weights())
    assert at_padding(judged) is None
