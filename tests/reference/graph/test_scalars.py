"""Scalars that a forward multiplies by are far from 1, and caps are where numbers are; what is no such scalar stays."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from qwen3_reference.graph.scalars import louder
from qwen3_reference.graph.tiny import tiny_inputs, tiny_model

SCALARS = ("attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling")


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**tiny_inputs(model, 1)[0]).logits  # type: ignore[no-any-return]


def test_every_scalar_of_granite_is_loud_and_its_own() -> None:
    model = tiny_model("granitemoe")
    values = [getattr(model.config, key) for key in SCALARS]
    assert len(set(values)) == 4 and all(0.37 <= value <= 0.7 or 1.4 <= value <= 2.6 for value in values)
    expected = logits(model)
    for key in SCALARS:
        plain = tiny_model("granitemoe", settings={key: 1.0})
        assert (logits(plain) - expected).abs().max() > 0.1, key


@pytest.mark.parametrize(
    ("key", "value", "loud"),
    [
        ("routed_scaling_factor", 1.0, True),
        ("mlp_alpha_factor", 1, True),
        ("logit_scale", 0.0625, False),
        ("block_ffn_dim_multiplier", 1.0, False),
        ("depthwise_multiplier", 1, False),
        ("initializer_factor", 1.0, False),
        ("layer_norm_scaling", True, False),
        ("residual_multiplier", True, False),
        ("residual_multiplier", None, False),
        ("moe_router_logit_softcapping", 0.0, False),
        ("attn_logit_softcapping", None, False),
        ("ssm_multipliers", [1.0, 2.0], False),
        ("ssm_multipliers", [], False),
    ],
)
def test_only_factors_of_exactly_1_change(key: str, value: object, loud: bool) -> None:
    said = {"part": {key: value, "rope_scaling": {"factor": 1.0, "mscale": 1.0}}}
    assert (louder(said) != said) == loud
    assert louder(said) == louder(said)


def test_each_of_several_factors_is_another() -> None:
    values = louder({"ssm_multipliers": [1.0] * 5})["ssm_multipliers"]
    assert len(set(values)) == 5 and 1.0 not in values


def test_caps_are_reached() -> None:
    config = tiny_model("gemma2").config
    assert (config.attn_logit_softcapping, config.final_logit_softcapping) == (2.5, 5.0)
    expected = logits(tiny_model("gemma2"))
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        assert (logits(tiny_model("gemma2", settings={key: None})) - expected).abs().max() > 0.1, key
    assert louder({"output_logit_soft_cap": 30.0, "mlp_gate_softcap": 4.0, "attention_logit_cap": 2}) == {
        "output_logit_soft_cap": 5.0,
        "mlp_gate_softcap": 2.5,
        "attention_logit_cap": 2,
    }
