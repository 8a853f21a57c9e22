"""Positions and ids that a tap tells, and edits of one part of a tap alone."""

from __future__ import annotations

import numpy as np
import pytest
from by_taps import faults, firsts, golden

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits import solved as solved_module
from qwen3_spec import RopeScaling, ops

CASE = "model/gpt_oss"
COS, CONTEXT = "model.rotary_emb", "model.layers.0.self_attn.context"
LENGTH, PAIRS = golden(CASE)[COS, 0].array.shape[1:]
POSITIONS = golden(CASE)["input.position_ids", 0].values()[:, :LENGTH]
YARN = RopeScaling("yarn", 8.0, 4096, 0.1 * np.log(8.0) + 1, truncate=False)
POSITIONS_TOLD = {
    "edit.input: has position_ids +7, at modeling_gpt_oss.py:187": POSITIONS + 7,
    "edit.input: has position_ids +5, at modeling_gpt_oss.py:187": POSITIONS + 5,
    "edit.input: has 0–1 for position_ids 1, 4": np.array([0, 0, 2, 3, 1])[POSITIONS],
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("says", POSITIONS_TOLD)
def test_positions_are_told_by_what_they_make(says: str) -> None:
    frequencies = ops.inv_freq.forward(2 * PAIRS, 9000.0, YARN)
    table: Array = np.cos(POSITIONS_TOLD[says][..., None] * frequencies) * YARN.attention_factor
    assert firsts(CASE, {COS: table})[0].startswith(says)


def test_positions_that_begin_anew_with_every_chunk_of_a_prompt_are_told() -> None:
    frequencies = ops.inv_freq.forward(2 * PAIRS, 9000.0, YARN)
    table: Array = np.cos((POSITIONS % 3)[..., None] * frequencies) * YARN.attention_factor
    says = "edit.input: counts position_ids from 0 again behind every 3 tokens of a prompt, at modeling_gpt_oss.py:187"
    assert any(f"{each.name}: {each.says}".startswith(says) for each in faults(CASE, {COS: table})[0].explanations)


def test_of_many_positions_those_near_the_right_ones_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solved_module, "_MOST", 3)
    test_positions_are_told_by_what_they_make("edit.input: has position_ids +7, at modeling_gpt_oss.py:187")


def test_a_mistake_in_one_head_is_told_of_that_head_alone() -> None:
    values = golden(CASE)[CONTEXT, 0].values().copy()
    values[:, :, 2] *= -1
    first, *_ = firsts(CASE, {CONTEXT: values})
    assert first.startswith("edit.negated: negates ") and ", in heads 2 alone, at " in first


def test_a_mistake_in_the_last_channels_is_told_of_these_alone() -> None:
    name = "model.layers.0.self_attn.q_proj"
    values = golden(CASE)[name, 0].values().copy()
    values[..., 20:] *= 2
    first, *_ = firsts(CASE, {name: values})
    assert first.startswith("edit.") and ", in channel 20–23 alone, at " in first
