"""What is wrong at padding alone is said where real tokens come of it: a recurrence that reads padding as tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.models.qwen3_next import modeling_qwen3_next as modeling

import qwen3_parity
from detection.families.patch import changed
from detection.ported.row import rows
from detection.ported.run import judged
from qwen3_golden import GOLDEN_ROOT, Array, Recording, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import by_graph, diagnose
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


@pytest.mark.slow
def test_what_moves_no_real_token_is_no_cause() -> None:
    """Qwen3.5's gate is otherwise at padding as well, and each token has its own."""
    (row,) = (row for row in rows() if row.name == "qwen3_5-02")
    result = judged(row, "modules")
    assert not result.failure, result.failure
    places = [said.place.rpartition(".")[2] for said in result.said]
    assert places == ["in_proj_qkv", "in_proj_b", "in_proj_a"]


def test_a_look_at_padding_that_fails_is_told_as_ours_and_the_verdict_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Any) -> Any:
        raise ValueError("inhomogeneous")

    monkeypatch.setattr(by_graph, "at_padding", fails)
    with padding_as_tokens():
        diagnosis = diagnose(golden(), candidate(tmp_path), weights())
    assert diagnosis.verdicts.exit_code == 1 and diagnosis.meaning and not diagnosis.faults
    assert any(line.startswith("harness bug: ") and "inhomogeneous" in line for line in diagnosis.failures)
