"""What one mistake of a reader makes of a weight in few bits is told, with the format; an honest format is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Product
from qwen3_parity.diagnosis.findings.structure.blocks import blocks
from qwen3_parity.diagnosis.findings.structure.clamped_inputs import clamped_inputs
from qwen3_parity.diagnosis.findings.structure.few_bits import GRIDS, Grid
from qwen3_parity.diagnosis.findings.structure.misread import misread

OUT, IN, GROUP = 24, 64, 16
F32 = np.float32


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(shape).astype(F32)


W, SIBLING = drawn(OUT, IN), 1.5 * drawn(OUT, IN, seed=1)


def product(
    weight: Array, x: Array | None = None, tensors: Mapping[str, Array] | None = None, *, of: Array | None = None
) -> Product:
    """Nine positions of a linear whose weight should be `W`: fewer than it has inputs."""
    inputs = drawn(9, IN, seed=2).astype(np.float64)
    y = ((inputs if x is None else x) @ weight.astype(np.float64).T).astype(F32).astype(np.float64)
    every = {"layers.0.up_proj.weight": SIBLING, **(tensors or {})}
    return Product(
        "layers.0.gate_proj.weight", inputs, np.asarray(W if of is None else of, np.float64), np.zeros(len(weight)),
        y, np.zeros(y.shape), 12, tensors=every,
    )  # fmt: skip


def four_bits(w: Array, group: int = GROUP) -> tuple[Array, Array, Array]:
    """Codes `[row, block, number]`, scales and zero points `[row, block, 1]`, of a reader who wrote them himself."""
    parts = w.reshape(len(w), -1, group)
    low, high = np.minimum(parts.min(2, keepdims=True), 0), np.maximum(parts.max(2, keepdims=True), 0)
    scale = (high - low) / F32(15)
    zero = np.rint(-low / scale)
    return np.clip(np.rint(parts / scale) + zero, 0, 15), scale, zero


def eight_bits(w: Array) -> tuple[Array, Array]:
    scale = np.abs(w).max(1, keepdims=True) / F32(127)
    return np.rint(w / scale), scale


def read(codes: Array, scale: Array, zero: Array) -> Array:
    return np.asarray((codes - zero) * scale, F32).reshape(OUT, IN)


def of_four_bits(change: Callable[[Array, Array, Array], tuple[Array, Array, Array]]) -> Array:
    return read(*change(*four_bits(W)))


def swapped(codes: Array) -> Array:
    return codes.reshape(OUT, -1, 2)[..., ::-1].reshape(codes.shape)


def interleaved(codes: Array) -> Array:
    """A byte holds number i and i + half of a block; whoever reads takes them for neighbours."""
    low, high = codes[..., : GROUP // 2], codes[..., GROUP // 2 :]
    return np.stack((low, high), -1).reshape(codes.shape)


TWICE = np.arange(IN // GROUP) // 2
MISTAKES: dict[str, tuple[Array, str]] = {
    "nibbles": (of_four_bits(lambda q, s, z: (swapped(q), s, z)), "exchanged in pairs"),
    "halves": (of_four_bits(lambda q, s, z: (interleaved(q), s, z)), "where a byte holds those of both halves"),
    "zero point": (of_four_bits(lambda q, s, z: (q, s, z + 1)), "zero points are one too large"),
    "no zero point": (of_four_bits(lambda q, s, z: (q, s, 0 * z)), "zero points are left out"),
    "middle": (of_four_bits(lambda q, s, z: (q, s, 0 * z + 8)), "8 is subtracted for the zero points"),
    "axis": (
        of_four_bits(lambda q, s, z: (q, s.reshape(IN // GROUP, OUT, 1).swapaxes(0, 1), z)),
        "its scales are read along the other axis",
    ),
    "next block": (
        of_four_bits(lambda q, s, z: (q, np.roll(s.ravel(), -1).reshape(s.shape), z)),
        "its scales are those of the next block",
    ),
    "larger blocks": (
        of_four_bits(lambda q, s, z: (q, s[:, TWICE], z[:, TWICE])),
        "its scales and zero points are read for blocks twice as large",
    ),
    "sibling": (
        of_four_bits(lambda q, s, z: (q, *four_bits(SIBLING)[1:])),
        "its scales and zero points are those of layers.0.up_proj.weight",
    ),
    "sibling's scale": (eight_bits(W)[0] * eight_bits(SIBLING)[1], "its scales are those of layers.0.up_proj.weight"),
    "cut off": (np.trunc(W / eight_bits(W)[1]) * eight_bits(W)[1], "without a minimum, whose fractions are cut off"),
    "rounded down": (np.floor(W / eight_bits(W)[1]) * eight_bits(W)[1], "whose fractions are rounded down"),
    "scale twice": (eight_bits(W)[0] * eight_bits(W)[1] ** 2, "its scales are multiplied twice"),
    "no sign": (eight_bits(W)[0] % 256 * eight_bits(W)[1], "its signed codes are read without a sign"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_whoever_reads_few_bits_is_told(mistake: str) -> None:
    weight, words = MISTAKES[mistake]
    fits = misread(product(weight))
    assert fits is not None, mistake
    name, says, share = fits
    assert name == "structure.misread" and share >= 0.9 and words in says, says
    assert "a scale for each 16 numbers of a row" in says or "8 bits" in says


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("grid", [grid for grid in GRIDS if grid.bits != 2], ids=lambda grid: grid.says)
def test_what_is_read_as_it_was_stored_is_a_format_and_no_mistake(grid: Grid) -> None:
    weight = grid.fit(W, lambda scale: np.asarray(scale, F32))
    fits = blocks(product(weight))
    assert fits is not None and fits[0] == "structure.blocks"


def test_other_weights_are_no_misread_ones() -> None:
    assert misread(product(drawn(OUT, IN, seed=3))) is None
    assert misread(product(1.1 * W)) is None
    one_row = np.concatenate([MISTAKES["nibbles"][0][:1], W[1:]])
    assert misread(product(one_row)) is None


def test_of_a_large_weight_some_rows_tell() -> None:
    wide = drawn(512, 1024, seed=4)
    codes, scale = eight_bits(wide)
    x = drawn(9, 1024, seed=5).astype(np.float64)
    weight = codes * np.roll(scale, 1, axis=0)
    y = (x @ weight.astype(np.float64).T).astype(F32).astype(np.float64)
    fits = misread(Product("w", x, wide.astype(np.float64), np.zeros(512), y, np.zeros(y.shape), 12))
    assert fits is not None and "its scales are those of the row before" in fits[1]


def test_a_clamped_input_is_told_with_its_size_and_through_roundings() -> None:
    x = drawn(9, IN, seed=2).astype(np.float64)
    exact = clamped_inputs(product(W, np.clip(x, -1.25, 1.25)))
    assert exact is not None and exact[0] == "structure.clamped_inputs" and exact[2] == 1
    assert exact[1].startswith("its input is cut off at ±1.25 (it is up to")
    step = 1.25 / 127
    rounded = clamped_inputs(product(W, np.clip(np.rint(x / step), -127, 127) * step))
    assert rounded is not None and "cut off at ±1.25" in rounded[1] and "as rounding would" in rounded[1]
    assert clamped_inputs(product(1.1 * W)) is None
    assert clamped_inputs(product(W, np.tanh(x))) is None
