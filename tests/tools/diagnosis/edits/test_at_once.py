"""Keys and values in few bits, and projections without their biases, or with them twice, are told as one mistake.

It runs `grammar.at_once` and `edits.single`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from by_taps import first_of, firsts, golden, weights

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site
from qwen3_parity.diagnosis.edits.sites import TAP, later
from qwen3_parity.diagnosis.edits.target import target
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.slices.network import network

ATTENTION = "layers.*.self_attn"
HERE = "model.layers.0.self_attn"
BY_MODULES = tuple(f"{HERE}.{name}" for name in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm", "o_proj"))
"""What implementations show that keep no scores."""


def said(case: str, changes: dict[Site, Change]) -> str:
    """What is said of layer 0 with these changes in every step."""
    whole = golden(case)
    items = [item for item in whole if item.info.name.endswith(BY_MODULES) or item.info.name.startswith("input.")]
    run = network(whole, replace(whole, tensors=items), weights(case))
    wrong = dict[tuple[str, int], Array]()
    for step in range(len(whole.case.steps)):
        key = f"{HERE}.o_proj", step
        here = target(run, *key)
        predicted = None if here is None else here.predicted(Edit("", "", PLAIN, changes))
        if predicted is not None:
            wrong[key] = predicted
    return first_of(case, wrong, BY_MODULES)


def in_eight_bits(call: Call) -> Array:
    return np.asarray(torch.from_numpy(np.float32(call.plain())).to(torch.float8_e4m3fn).to(torch.float64))


@pytest.mark.parametrize("which", [("key", "value"), ("value",)])
def test_keys_and_values_in_few_bits_are_told_without_a_caches_taps(which: tuple[str, ...]) -> None:
    changes: dict[Site, Change] = {Site(TAP, 0, f"cache.*.{kind}s"): in_eight_bits for kind in which}
    names = " and ".join(f"{kind}s" for kind in which)
    assert said("model/qwen3_moe", changes).startswith(
        f"edit.rounded: stores {names} in the cache in float8 (e4m3), at"
    )


@pytest.mark.parametrize(("more", "says"), [(-1, "without their biases"), (1, "with their biases added twice")])
def test_biases_that_decode_steps_leave_out_or_add_again_are_told_together(more: int, says: str) -> None:
    whole = weights("model/gpt_oss")
    names = [f"{ATTENTION}.{each}_proj" for each in "qkv"]
    changes: dict[Site, Change] = {
        later(Site("", 0, name), 1): lambda call, name=name: np.asarray(
            call.operands[0] + more * whole[f"model.{name.replace('*', '0')}.bias"]
        )
        for name in names
    }
    answer = said("model/gpt_oss", changes)
    assert answer.startswith("edit.operand: reads ") and all(name in answer for name in names)
    assert f" {says}, in every step but the first, at modeling_gpt_oss.py:" in answer


def test_a_bias_that_is_added_again_behind_its_module_is_told() -> None:
    case, norm = "model/gpt_oss", "model.layers.0.post_attention_layernorm"
    bias, weight = (weights(case)[name] for name in (f"{HERE}.o_proj.bias", f"{norm}.weight"))
    x = golden(case)["model.embed_tokens", 0].values() + golden(case)[f"{HERE}.o_proj", 0].values() + np.float64(bias)
    eps = network(golden(case), golden(case), weights(case)).config["rms_norm_eps"]
    normed = weight * x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps)
    first, *_ = firsts(case, {norm: normed})
    assert first.startswith(f"edit.operand: reads {ATTENTION} with its bias added twice, at modeling_gpt_oss.py:")
