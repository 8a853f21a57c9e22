"""What layer outputs name is named with every tap, too, where the op behind makes the mistake of the one before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from seeded import Compute, diagnosed

from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

CASE, LAYER = "encdec/ragged", "decoder.layers.{layer}"
PROJECTIONS = tuple(f"{LAYER}.merged_attn.{name}_proj" for name in "qkv")


def folded(site: Site) -> Result:
    """A projection with its norm's weight in it, behind a norm that applies it too."""
    norm = site.checkpoint[f"decoder.layers.{site.place.layer}.input_layernorm.weight"]
    weight = np.asarray(site.parameters["weight"] * norm, np.float32)
    return OPS["linear"].truth(replace(site, parameters={**site.parameters, "weight": weight}))


def one_plus(site: Site) -> Result:
    """A kernel of norm and projection that takes the weight for one less than it is; the norm itself is right."""
    name = f"decoder.layers.{site.place.layer}.post_attention_layernorm"
    norm = torch.tensor(site.checkpoint[f"{name}.weight"])
    x = torch.tensor(np.array(site.inputs[0], np.float32)) / norm * (1 + norm)
    return torch.nn.functional.linear(x, torch.tensor(np.array(site.parameters["weight"]))).numpy(), None


BEHIND: dict[str, tuple[tuple[str, ...], Compute, str]] = {
    "a norm's weight that is in the projections, too": (PROJECTIONS, folded, "norm.weight_twice"),
    "1 + weight in a kernel of norm and projections": (
        (f"{LAYER}.mlp.gate_proj", f"{LAYER}.mlp.up_proj"),
        one_plus,
        "norm.one_plus_weight",
    ),
}


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("taps", ["*", "*.output"])
@pytest.mark.parametrize("kind", BEHIND)
def test_a_mistake_behind_a_right_tap_has_the_name_that_layer_outputs_give(kind: str, taps: str) -> None:
    places, wrong, name = BEHIND[kind]
    diagnosis = diagnosed(CASE, dict.fromkeys(places, wrong), taps=taps)
    assert {fault.name for fault in diagnosis.faults} == {name}
    if taps == "*":
        assert {fault.fault.place for fault in diagnosis.faults} == set(places)
        assert "though its tap is right" in diagnosis.faults[0].explanations[0].says
