"""What weights are that were loaded in the place of the checkpoint's: each kind, and the layer that differs."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_golden import Array
from qwen3_parity.diagnosis.as_held import in_words
from qwen3_parity.diagnosis.findings.structure.weights import structure_of

RNG = np.random.Generator(np.random.PCG64(0))
KINDS, LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj"), 3
STORED = {f"layers.{n}.{kind}.weight": RNG.normal(size=(16, 32)) for n in range(LAYERS) for kind in KINDS}
NORMS = {f"layers.{n}.norm.weight": RNG.uniform(0.5, 2, 32) for n in range(LAYERS)}


def in_blocks(weight: Array, zero_point: float = 0.0) -> Array:
    """4 bits with a zero point, a scale for each 16 numbers of a row."""
    blocks = weight.reshape(len(weight), -1, 16)
    low, high = blocks.min(-1, keepdims=True), blocks.max(-1, keepdims=True)
    scale = (high - low) / 15
    zero = np.rint(-low / scale)
    codes = np.clip(np.rint(blocks / scale) + zero, 0, 15)
    return np.asarray((codes - zero - zero_point) * scale, np.float32).reshape(weight.shape).astype(np.float64)


def test_few_bits_of_all_are_said_once_and_are_the_name_of_all() -> None:
    name, says = in_words({name: in_blocks(weight) for name, weight in STORED.items()}, STORED)
    assert name == "structure.blocks"
    assert ". each of them: its weight is in 4 bits with a zero point, a scale for each 16 numbers of a row" in says


@pytest.mark.parametrize("layer", range(LAYERS))
@pytest.mark.parametrize("kind", KINDS)
def test_zero_points_of_a_single_weight_among_all_in_few_bits_are_said_with_its_layer(kind: str, layer: int) -> None:
    wrong = f"layers.{layer}.{kind}.weight"
    loaded = {name: in_blocks(weight, float(name == wrong)) for name, weight in STORED.items()}
    name, says = in_words(loaded, STORED)
    assert name == "weight.as_loaded"
    assert f"there. {kind} of layer {layer}: its weight is in 4 bits" in says and "one too large; " in says


def test_another_layers_weight_in_few_bits_is_said_to_be_that_layers() -> None:
    loaded = {name: in_blocks(weight) for name, weight in STORED.items()}
    loaded["layers.1.o_proj.weight"] = loaded["layers.2.o_proj.weight"]
    name, says = in_words(loaded, STORED)
    assert name == "weight.as_loaded"
    assert "o_proj of layer 1: its weight is made of layers.2.o_proj.weight: its weight is in 4 bits" in says


@pytest.mark.parametrize(
    ("loaded", "name", "says"),
    [
        (NORMS["layers.2.norm.weight"], "weight.other_tensor", "it is layers.2.norm.weight"),
        (NORMS["layers.0.norm.weight"] + 1, "weight.constant_added", "its weight is the checkpoint's plus 1"),
        (NORMS["layers.0.norm.weight"] * 0.5, "weight.scaled", "its weight is the checkpoint's times 0.5"),
    ],
)
def test_a_norms_weight_is_anothers_or_the_checkpoints_plus_or_times_a_number(
    loaded: Array, name: str, says: str
) -> None:
    finding = structure_of(
        "layers.0.norm.weight", np.float64(np.float32(loaded)) if "it is" not in says else loaded, NORMS
    )
    assert finding is not None and (finding.name, finding.says) == (name, says)


@pytest.mark.filterwarnings("error")
def test_a_bias_of_zeros_that_holds_something_has_no_factor() -> None:
    biases = {f"layers.{n}.proj.bias": np.zeros(32) + n for n in range(2)}
    assert structure_of("layers.0.proj.bias", RNG.normal(size=32), biases) is None


@pytest.mark.parametrize(("bits", "words"), [(7, "bfloat16"), (3, "float8 (e4m3)")], ids=["bfloat16", "float8"])
def test_numbers_that_are_rounded_by_themselves_are_said_to_be(bits: int, words: str) -> None:
    def rounded(weight: Array) -> Array:
        step = np.exp2(np.floor(np.log2(np.abs(weight))) - bits)
        step = np.maximum(step, 2.0**-9) if bits == 3 else step
        return np.asarray(np.rint(weight / step) * step)

    stored = {name: np.float64(np.float32(weight)) for name, weight in (STORED | NORMS).items()}
    name, says = in_words({name: rounded(weight) for name, weight in stored.items()}, stored)
    assert name == "weight.rounded" and f"each of them: its weight is rounded to {words}" in says


def test_a_few_bits_are_no_name_for_more_weights_than_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen3_parity.diagnosis.as_held._MOST", 4)
    name, _ = in_words({name: in_blocks(weight) for name, weight in STORED.items()}, STORED)
    assert name == "weight.as_loaded"
