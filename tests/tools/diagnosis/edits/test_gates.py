"""A gate on the wrong side of its norm is told, where the network multiplies first and where it takes the norm first.

It runs `grammar.order` and `grammar.repeats`, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_recurrences import edits, honest, region

from detection.ported.row import rows
from detection.ported.run import judged
from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Edit
from qwen3_parity.diagnosis.edits.grammar.order import order

NORM_FIRST = """*prefix_dims, last_dim = hidden_states.shape
        hidden_states_group = hidden_states.view(*prefix_dims, last_dim // self.group_size, self.group_size)
        variance = hidden_states_group.pow(2).mean(-1, keepdim=True)
        hidden_states_group = hidden_states_group * torch.rsqrt(variance + self.variance_epsilon)
        hidden_states = hidden_states_group.view(*prefix_dims, last_dim) * nn.functional.silu(gate.to(torch.float32))
        return self.weight * hidden_states.to(input_dtype)"""


def result_of(edit: Edit) -> Array:
    return np.asarray(region().edited(edit))


def test_a_gate_before_the_norm_that_stands_behind_it() -> None:
    says = "multiplies by silu before the norm, not behind it"
    (edit,) = (edit for edit in order(region()) if edit.says == says)
    assert edit.name == "edit.moved"
    here, leaves = region(), honest().graph.leaves
    weight = np.float64(honest().slices.leaves[leaves["model.layers.0.linear_attn.norm.weight"]])
    rule, z = (np.asarray(here.base[value]) for value in (_read(here.order, "pow"), _read(here.order, "silu")))
    product = rule * z / (1 + np.exp(-z))
    size = np.sqrt(np.square(product).mean(-1, keepdims=True) + honest().config["rms_norm_eps"])
    np.testing.assert_allclose(result_of(edit), weight * product / size, rtol=1e-9, atol=1e-12)


def _read(order: list[int], op: str) -> int:
    """What the last op of a name reads."""
    nodes = (honest().graph.node(value) for value in reversed(order))
    return next(node.reads[0] for node in nodes if node is not None and node.op.startswith(f"{op}."))


def test_heads_that_are_tiled_are_the_values_heads_in_another_order() -> None:
    """Of heads 0 0 1 1 of Q and K, tiled 0 1 0 1, the middle two read another; the first and the last do not."""
    edit = edits()["tiles the copies, where each is repeated, in all 2 lines that repeat"]
    change = result_of(edit) - region().base[region().value]
    heads = honest().config["linear_num_value_heads"]
    moved = np.abs(change.reshape(-1, heads, change.shape[-1])).max((0, 2)) > 1e-9
    repeated = heads // honest().config["linear_num_key_heads"]
    keys = np.arange(heads)
    np.testing.assert_array_equal(moved, keys // repeated != keys % (heads // repeated))


@pytest.mark.slow
def test_a_gate_behind_the_norm_that_stands_before_it_is_named() -> None:
    (row,) = (row for row in rows() if row.name == "mamba2-01")
    result = judged(replace(row, name="norm first", new=NORM_FIRST), "modules")
    assert not result.failure, result.failure
    assert result.said[0].name == "edit.moved", result
    assert "runs the norm before the product with silu, not behind it" in result.said[0].text
