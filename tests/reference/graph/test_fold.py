"""An exported graph has each value once, and none of the ops that change nothing."""

from __future__ import annotations

from collections import Counter

import torch
from torch import nn

from qwen3_reference.graph.export import exported


class Module(nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        y = (x * x).clone().to(torch.float32)[:, 0:3].contiguous()
        again = x * x
        count = torch.arange(3)
        return [y.sum(-1), again.sum(-1), y, again, count + 1, count + 1.0, x[:, 1:], again.clone().add_(1)]


def test_what_is_computed_twice_is_one_value_and_what_changes_nothing_is_none() -> None:
    keys = [(f"tap{number}", 0) for number in range(8)]
    graph = exported(Module(), (torch.ones(2, 3),), keys=lambda: keys)
    assert graph.taps["tap0", 0] == graph.taps["tap1", 0] and graph.taps["tap2", 0] == graph.taps["tap3", 0]
    ops = Counter(node.op.partition(".")[0] for node in graph.nodes)
    assert ops == {"mul": 1, "sum": 1, "arange": 1, "add": 3, "slice": 1}


def test_an_integer_and_the_same_float_are_two_operands() -> None:
    keys = [(f"tap{number}", 0) for number in range(8)]
    graph = exported(Module(), (torch.ones(2, 3),), keys=lambda: keys)
    dtypes = [node.dtype for key in keys[4:6] if (node := graph.node(graph.taps[key])) is not None]
    assert dtypes == ["int64", "float32"]


class Bound(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(3, 2)

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.model(inputs["features"]) * inputs["scale"]  # type: ignore[no-any-return]


def test_inputs_by_name_keep_their_names_and_the_roots_own_goes() -> None:
    inputs = {"features": torch.ones(2, 3), "scale": torch.ones(2, 1)}
    auto = {name: dict.fromkeys((0,), torch.export.Dim.AUTO) for name in inputs}
    graph = exported(Bound(), inputs, (auto,), keys=lambda: [("logits", 0)], root="model")
    assert graph.inputs == ("features", "scale") and graph.parameters == ("weight", "bias")
    node = graph.node(graph.taps["logits", 0])
    assert node is not None and node.shape == (None, 2)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.model(x))


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Inner()

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [self.model(x)]


def test_what_the_root_itself_computes_has_no_path_also_where_a_module_of_it_is_called_as_it_is() -> None:
    graph = exported(Around(), (torch.ones(2, 3),), keys=lambda: [("logits", 0)], root="model")
    assert {node.op.partition(".")[0]: node.module for node in graph.nodes} == {"linear": "model", "tanh": ""}
