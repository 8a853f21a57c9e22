"""Integers are read off a weight as it was loaded, with what is wrong with them; other numbers are none."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

import numpy as np
import pytest

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.structure.weights import structure_of
from qwen3_parity.mistakes.rounding import bfloat16

OUT, IN, GROUP, NAME = 24, 60, 12, "layers.0.gate_proj.weight"
F32 = np.float32
W = np.random.Generator(np.random.PCG64(0)).standard_normal((OUT, IN)).astype(F32)


def said_of(loaded: Array, stored: Array = W) -> Finding:
    """What is said of a weight that was loaded in the place of `W`."""
    finding = structure_of(NAME, np.asarray(loaded, np.float64), {NAME: stored})
    assert finding is not None
    return finding


def signed(w: Array = W) -> tuple[Array, Array]:
    """Codes of 4 bits `[row, block, number]`, and their scales."""
    parts = w.reshape(len(w), -1, GROUP)
    scale = np.abs(parts).max(-1, keepdims=True) / F32(7)
    return np.rint(parts / scale), scale


def with_zero(w: Array = W) -> tuple[Array, Array, Array]:
    parts = w.reshape(len(w), -1, GROUP)
    low, high = parts.min(-1, keepdims=True), parts.max(-1, keepdims=True)
    scale = (high - low) / F32(15)
    zero = np.rint(-low / scale)
    return np.clip(np.rint(parts / scale) + zero, 0, 15), scale, zero


CODES, SCALE = signed()
POSITIVE, STEP, ZERO = with_zero()
TURNED = np.where(CODES < 0, CODES + 8, CODES - 8)
MOVED = np.where(np.arange(IN // GROUP)[:, None] % 2, ZERO - 3, ZERO)
NARROW = np.rint(W / (np.abs(W).max(-1, keepdims=True) / F32(127)))
KEPT = [
    (TURNED * SCALE, "structure.misread", "off by +8 steps where they are negative and by -8 where they are not"),
    ((POSITIVE - MOVED) * STEP, "structure.block_shifted", "the zero points of 48 of its 120 blocks (1, 3, 6, 8 …) are off by +3 steps"),
    (1.3 * CODES * np.roll(SCALE, 1, 0), "structure.block_scaled", "another's scale: "),
    (NARROW * bfloat16(np.abs(W).max(-1, keepdims=True) / F32(127)), "structure.blocks", "8 bits, a scale for each row, scales in bfloat16"),
]  # fmt: skip


@pytest.mark.parametrize(("loaded", "name", "words"), KEPT, ids=["signs", "zero points", "scales", "types of scales"])
def test_what_is_wrong_with_the_integers_of_a_weight_is_told(loaded: Array, name: str, words: str) -> None:
    finding = said_of(np.asarray(loaded, F32).reshape(OUT, IN))
    assert finding.name == name and words in finding.says and finding.weight == 1


def test_the_first_rows_tell_as_much() -> None:
    finding = said_of(np.asarray(TURNED * SCALE, F32).reshape(OUT, IN)[:9])
    assert finding.name == "structure.misread" and finding.says.endswith("; told by its first 9 rows as loaded")


def test_a_weight_in_few_bits_is_told_by_its_form_where_that_is_all() -> None:
    finding = said_of(np.asarray(CODES * SCALE, F32).reshape(OUT, IN))
    assert finding.name == "structure.blocks"
    assert finding.says == "its weight is in integers of 4 bits, a scale for each 12 numbers of a row"


def test_scales_of_others_are_told_through_what_was_rounded() -> None:
    """Numbers of few bits with no step that all of a block shows: float8 by the scales of another row's blocks."""
    parts = W.reshape(OUT, -1, GROUP)
    scale = np.abs(parts).max(-1, keepdims=True)
    rounded = (parts / scale * (1 + 0.02 * np.sin(997 * parts))) * np.roll(scale, 1, 0)
    finding = said_of(np.asarray(rounded, F32).reshape(OUT, IN))
    assert finding.name == "structure.block_scaled" and "each block of 12 inputs of its weight's rows" in finding.says
    assert "as rounding would" in finding.says and finding.weight == 0.99


def test_noise_stands_on_no_steps() -> None:
    noise = np.random.Generator(np.random.PCG64(1)).standard_normal(W.shape)
    finding = said_of(W + 0.1 * noise)
    assert finding.name == "weight.unknown" and "by 0.1 of its size, in no form that is known" in finding.says


def test_experts_are_read_as_the_rows_of_all_of_them() -> None:
    loaded = np.asarray(TURNED * SCALE, F32).reshape(4, 6, IN)
    assert said_of(loaded, W.reshape(4, 6, IN)).name == "structure.misread"


@pytest.mark.parametrize("shape", [(), (0, IN), (OUT, 0), (IN,), (OUT, IN + 1), (OUT + 1, IN)])
def test_of_rows_in_another_shape_nothing_is_said(shape: tuple[int, ...]) -> None:
    """A recording may hold anything under a parameter's name."""
    assert structure_of(NAME, np.zeros(shape), {NAME: W}) is None
    assert structure_of(NAME, np.full((OUT, IN), np.nan), {NAME: W}) is None
