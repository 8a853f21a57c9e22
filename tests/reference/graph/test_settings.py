"""The reference runs a model in its own way and leaves it as it was."""

from __future__ import annotations

import sys

from qwen3_reference.graph.settings import EXPERTS, as_reference
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
