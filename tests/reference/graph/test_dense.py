"""Experts in a loop over what a mask shows are a graph for every choice, not for that of the export."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from qwen3_reference.graph.dense import AllShown, is_loop
from qwen3_reference.graph.export import exported
from qwen3_reference.graph.taps import Taps, watched


class Loop(nn.Module):
    """Four experts, of which each token has two, as transformers loops over them."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.parts = nn.Linear(3, 4), nn.ModuleDict({f"part_{n}": nn.Linear(3, 3) for n in range(4)})
        self.scales = nn.Parameter(torch.tensor([0.5, 2.0, 3.0, 0.7]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.topk(self.router(x).softmax(-1), 2, dim=-1)
        mask = nn.functional.one_hot(chosen, num_classes=5).permute(2, 1, 0)
        total = torch.zeros_like(x)
        for number in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
            places, tokens = torch.where(mask[number[0]])
            scale = self.scales[number[0]]  # of the fifth class there is none
            if number[0] == 4:
                continue
            y = self.parts[f"part_{number[0]}"](x[tokens]) * scale * weights[tokens, places, None]
            total.index_add_(0, tokens, y)
        return total


def test_a_loop_of_experts_is_a_graph_that_computes_every_choice() -> None:
    torch.manual_seed(0)
    loop = Loop().double().requires_grad_(False)
    x, others = torch.randn(5, 3).double(), torch.randn(5, 3).double()
    with AllShown():
        graph = exported(loop, (x,), ({0: torch.export.Dim.AUTO},))
    parameters = {name: value.numpy() for name, value in loop.named_parameters()}
    for tokens in (x, others, others[:3], x[:1].expand(7, 3)):
        values = graph.run(graph.leaf_values({graph.inputs[0]: tokens.numpy(), **parameters}))
        (result,) = graph.taps.values()
        np.testing.assert_allclose(values[result], loop(tokens).numpy(), rtol=1e-12, atol=1e-13)


def test_what_a_loop_calls_is_no_tap() -> None:
    taps, loop = Taps(), Loop().requires_grad_(False)
    around = nn.Sequential(loop)
    with watched(around, taps):
        around(torch.ones(2, 3))
    assert list(taps.values) == [("0", 0)]


@pytest.mark.parametrize(("kind", "loops"), [(Loop, True), (nn.Linear, False), (nn.Sequential, False)])
def test_a_loop_is_known_by_its_source(kind: type[nn.Module], *, loops: bool) -> None:
    assert is_loop(kind.forward) == loops
