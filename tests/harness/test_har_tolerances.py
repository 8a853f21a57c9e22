"""Tolerances are measured floors times few headrooms: nobody passes a number in, and none is loose."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from google.protobuf import text_format

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pb, place, read
from qwen3_parity import check
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.judge.scope import Scope
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.ours.network import EncoderDecoder
from qwen3_parity.recording.suite import goldens

Judged = Callable[..., Verdicts]
TABLES = ("decoder.cos", "decoder.sin", "encoder.cos", "encoder.sin", "encoder_cos", "encoder_sin")


@cache
def compared() -> list[Recording]:
    """Every golden that an implementation is judged on, whole networks and ops alone."""
    return [read(path) for path in goldens()]


def scale(recording: Recording, item: Tensor, scope: Scope) -> float:
    """The RMS of what is judged of a tap, 0 for nothing."""
    judged = scope.judged(item, place(item.info.name, recording.case.config.num_hidden_layers))
    values = item.values().astype(np.float64)
    counted = values if judged is None else values[np.broadcast_to(judged, values.shape)]
    return float(np.sqrt(np.mean(counted * counted))) if counted.size else 0.0


def budgets(arithmetic: int) -> Iterator[tuple[str, float, float]]:
    """Of every float tap: where, the RMS error allowed as a share of its RMS, and the largest error allowed."""
    for recording in compared():
        scope = Scope(recording)
        for item in recording:
            allowed, floor = headroom("run", item.info.op), item.info.floor
            size = scale(recording, item, scope) if item.info.HasField("floor") else 0.0
            if size and recording.run.arithmetic == arithmetic:
                where = f"{recording.case.name}: {item.info.name} (step {item.info.step})"
                yield where, allowed.rms * floor.rms / size, allowed.max * floor.max


def test_har_13_a_check_takes_no_tolerance() -> None:
    assert list(inspect.signature(check).parameters) == ["golden", "candidate", "weights", "partial"]


def test_har_13_a_candidate_cannot_bring_its_own_floors(judged: Judged, recorded: Callable[..., Recording]) -> None:
    golden = read(GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb")
    candidate = recorded(golden)
    for item in candidate:
        item.info.floor.CopyFrom(pb.Floor(rms=9, max=9, row=9, head=9))
    moved = [Tensor(t.info, t.array + np.float32(0.01)) if t.info.name == "encoder.norm" else t for t in candidate]
    assert check(golden, replace(candidate, tensors=moved)).exit_code == 1


def test_har_13_no_float32_tap_may_be_off_by_a_tenth() -> None:
    rows = list(budgets(pb.ARITHMETIC_F32))
    assert len(rows) > 3000
    assert [where for where, _, largest in rows if largest >= 0.1] == []


def test_har_13_no_float32_budget_but_that_of_cos_and_sin_is_above_twenty_millionths() -> None:
    rows = [row for row in budgets(pb.ARITHMETIC_F32) if not row[0].split(" (")[0].endswith(TABLES)]
    assert [where for where, share, _ in rows if share > 2e-5] == []


def test_har_13_the_budget_of_cos_and_sin_is_the_rounding_of_their_angle() -> None:
    for recording in compared():
        input_positions = [t.array.max() for t in recording if t.info.name.endswith("_position_ids")]
        positions = [t.array.max() for t in recording if t.info.op == "position_ids"] or input_positions
        factor = recording.case.config.rope_scaling.attention_factor or 1
        for item in recording:
            if item.info.name.endswith(TABLES) and recording.run.arithmetic == pb.ARITHMETIC_F32:
                largest = headroom("run", item.info.op).max * item.info.floor.max
                assert largest <= 9 * 2.0**-24 * (1 + max(positions)) * max(factor, 1), item.info.name


def test_har_13_a_bfloat16_budget_is_a_few_of_its_rounding_steps() -> None:
    shares = [share for _, share, _ in budgets(pb.ARITHMETIC_BF16)]
    assert max(shares) < 0.15 and np.median(shares) < 0.1  # 2^-8 = 0.4 % a rounding


def test_har_13_every_headroom_says_what_was_measured() -> None:
    text = (GOLDEN_ROOT / "tolerances.textproto").read_text(encoding="utf-8")
    rows = text_format.Parse(text, pb.Tolerances()).headroom
    assert [row.op for row in rows if row.kind == "run"] == ["", "bias_gradient", "norm_input_gradient"]
    assert all(row.measured for row in rows)


@pytest.mark.parametrize("projection", ["q_proj", "k_proj", "v_proj"])
def test_har_13_a_missing_bias_is_never_called_minor(judged: Judged, projection: str) -> None:
    def seed(runner: EncoderDecoder) -> None:
        with torch.no_grad():
            runner.model.decoder.layers[0].merged_attn.get_submodule(projection).bias.zero_()  # type: ignore[operator, union-attr]

    verdicts = judged("encdec/qwen2", seed)
    (tap,) = (t for t in verdicts.taps if t.name == f"decoder.layers.0.merged_attn.{projection}" and t.step == 0)
    assert tap.share > 1e4
