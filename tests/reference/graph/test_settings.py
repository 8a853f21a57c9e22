"""The reference runs a model in its own way and leaves it as it was."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from qwen3_reference.graph.settings import EXPERTS, as_reference, unmoved, unstretched
from qwen3_reference.graph.tiny import tiny_model


def test_a_model_runs_eagerly_without_dropout_and_is_afterwards_as_before() -> None:
    model = tiny_model("qwen3_moe")
    model.set_attn_implementation("sdpa")
    model.config._experts_implementation = "grouped_mm"
    model.train()
    model.lm_head.eval()
    with as_reference(model):
        assert model.config._attn_implementation == "eager" and model.config._experts_implementation == EXPERTS
        assert not any(module.training for module in model.modules())
    assert model.config._attn_implementation == "sdpa" and model.config._experts_implementation == "grouped_mm"
    assert model.training and model.model.training and not model.lm_head.training


def test_forwards_go_through_a_set_in_order_and_only_within() -> None:
    model = tiny_model("gemma3")
    theirs = vars(sys.modules[type(model).__module__])
    with as_reference(model):
        assert list(theirs["set"](["window", "full", "some"])) == ["full", "some", "window"]
    assert "set" not in theirs


@pytest.mark.parametrize(("length", "kind"), [(9, "default"), (64, "default"), (65, "dynamic")])
def test_dynamic_rope_is_as_it_stands_where_a_text_does_not_stretch_it(length: int, kind: str) -> None:
    model = tiny_model(
        "llama", settings={"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}
    )
    rope = model.model.rotary_emb
    with unstretched(model, length):
        assert rope.rope_type == kind
    assert rope.rope_type == "dynamic"


def test_a_module_that_has_the_type_is_not_moved_to_it_and_moves_to_another() -> None:
    class Router(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.layer = self.layer.to(torch.float32)
            return self.layer(x)  # type: ignore[no-any-return]

    with unmoved():
        torch.export.export(Router(), (torch.ones(2, 3),), strict=False)
        assert nn.Linear(3, 2).to(torch.float64).weight.dtype == torch.float64
