"""An activation of an edit scatters in a draw as torch's own does: erf is further off than float32 rounds.

It runs `grammar.activations`, too.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from by_taps import first_of, golden

from qwen3_parity.diagnosis.edits.grammar.activations import ACTIVATIONS
from qwen3_parity.diagnosis.edits.sites import site_of
from qwen3_spec.aten import TRUTH
from qwen3_spec.aten.noise import draws
from qwen3_spec.graph import Line, Node

X = np.linspace(-5, -4, 1000)


def scattered(name: str) -> float:
    """The largest scatter of an activation in parts of a rounding of its result."""
    truth, (noise, *_) = ACTIVATIONS[name](TRUTH, X), draws(2)
    return float((np.abs(ACTIVATIONS[name](noise.at(7), X) - truth) / (2.0**-24 * np.abs(truth))).max())


def test_exact_gelu_is_as_far_off_as_torchs_erf_where_it_cancels() -> None:
    assert scattered("exact gelu") > 1000


@pytest.mark.parametrize(("name", "most"), [("nothing", 0), ("silu", 10)])
def test_what_cancels_nothing_scatters_by_a_few_roundings(name: str, most: int) -> None:
    assert scattered(name) <= most


def test_an_activation_times_what_it_reads_is_told() -> None:
    case, mlp = "model/qwen3_moe_dense_layers", "model.layers.0.mlp"
    gate, activated = (golden(case)[f"{mlp}.{name}", 0].values().astype(np.float64) for name in ("gate_proj", "act_fn"))
    names = (f"{mlp}.gate_proj", f"{mlp}.act_fn")
    answer = first_of(case, {(names[-1], 0): activated * gate}, names)
    assert answer.startswith("edit.added: multiplies the result of silu by what it reads, at modeling_qwen3_moe.py:")


def test_the_activation_of_a_layer_is_another_than_the_heads_though_one_line_runs_both() -> None:
    """A function of the head calls it from a line of the model's own, a module of a layer does not."""
    of_both = Line(file="activations.py", number=90, function="forward")
    of_head = Line(file="modeling_x.py", number=7, function="forward")
    every = [
        Node("gelu.default", (), {}, "float32", (), module, (of_head, of_both)[at:])
        for module, at in (("lm_head", 0), ("act", 1))
    ]
    assert len({site_of(node, cast(Any, SimpleNamespace(inputs=(), states=frozenset()))) for node in every}) == 2


def test_a_gelu_is_called_as_it_is_computed() -> None:
    case, mlp = "model/gemma3", "model.layers.0.mlp"
    names = (f"{mlp}.gate_proj", f"{mlp}.act_fn")
    exact = ACTIVATIONS["exact gelu"](TRUTH, golden(case)[names[0], 0].values().astype(np.float64))
    assert first_of(case, {(names[-1], 0): exact}, names).startswith(
        "edit.sibling: has exact gelu for gelu by tanh, at"
    )
