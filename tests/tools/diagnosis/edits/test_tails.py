"""What stands behind the last whole block and is left out is told, and what two projections are cut otherwise.

It runs `grammar.tails` and `grammar.places`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from by_taps import first_of, golden, weights

from qwen3_golden import Array

CASE, MLP = "model/qwen3_moe_dense_layers", "model.layers.0.mlp"


def recorded(name: str) -> Array:
    return golden(CASE)[f"{MLP}.{name}", 0].values().astype(np.float64)


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def test_channels_behind_the_last_whole_block_are_told() -> None:
    wrong = golden(CASE)["lm_head", 0].values().astype(np.float64)
    count = wrong.shape[-1]
    whole = count // 16 * 16
    assert whole < count, "the network's sizes are such that blocks of 16 do not fill them"
    wrong[..., whole:] = 0
    answer = first_of(CASE, {("lm_head", 0): wrong}, ("model.norm", "lm_head"))
    assert answer.startswith(f"edit.left_out: leaves out channels {whole} to {count - 1} of the result of linear, ")
    assert ", behind the last whole 16, at " in answer


@pytest.mark.parametrize("name", ["act_fn", "down_proj"])
def test_channels_behind_it_on_which_no_activation_runs_are_told(name: str) -> None:
    """Where the product reads the activation, it is right, and its module's reads stand in its place."""
    gate, up = recorded("gate_proj"), recorded("up_proj")
    mixed = np.where(np.arange(gate.shape[-1]) < 16, silu(gate), gate)
    wrong = mixed if name == "act_fn" else mixed * up @ weights(CASE)[f"{MLP}.down_proj.weight"].T
    names = tuple(f"{MLP}.{each}" for each in ("gate_proj", "up_proj", "act_fn", name))
    answer = first_of(CASE, {(names[-1], 0): wrong}, names)
    module = "silu" if name == "act_fn" else "layers.*.mlp.act_fn"
    assert answer.startswith(f"edit.left_out: leaves {module} out for channels 16 to 19 of what it reads, behind the ")


def by_twos(gate: Array, up: Array) -> Array:
    return np.concatenate([gate, up], -1)[..., ::2]


def by_neighbours(gate: Array, up: Array) -> Array:
    return np.stack([gate, up], -1).reshape(*gate.shape[:-1], -1)[..., : gate.shape[-1]]


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (by_twos, "as if they lay interleaved: every second channel of the two joined for each"),
        (by_neighbours, "as if they lay in halves, where they lie interleaved"),
    ],
)
def test_two_projections_that_are_cut_otherwise_than_they_were_joined_are_told(
    cut: Callable[[Array, Array], Array], words: str
) -> None:
    names = (f"{MLP}.gate_proj", f"{MLP}.up_proj", f"{MLP}.act_fn")
    wrong = silu(cut(recorded("gate_proj"), recorded("up_proj")))
    answer = first_of(CASE, {(names[-1], 0): wrong}, names)
    assert answer.startswith(f"edit.order: takes layers.*.mlp.gate_proj and layers.*.mlp.up_proj {words}, at ")
