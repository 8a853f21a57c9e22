"""Keys and values in few bits, and projections without their biases, or with them twice, are told as one mistake.

It runs `grammar.at_once`, `grammar.cached` and `edits.single`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from by_taps import faults_of, first_of, firsts, golden, weights

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Change, Edit, Site
from qwen3_parity.diagnosis.edits.sites import TAP, later
from qwen3_parity.diagnosis.edits.target import target
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.slices.network import network

ATTENTION = "layers.*.self_attn"
HERE = "model.layers.0.self_attn"
BY_MODULES = tuple(f"{HERE}.{name}" for name in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm", "o_proj"))
"""What implementations show that keep no scores."""


def predicted(case: str, changes: dict[Site, Change], ends: tuple[str, ...]) -> dict[tuple[str, int], Array]:
    """What layer 0 gives with these changes in every step, where taps of these ends are recorded."""
    whole = golden(case)
    items = [item for item in whole if item.info.name.endswith(ends) or item.info.name.startswith("input.")]
    run = network(whole, replace(whole, tensors=items), weights(case))
    wrong = dict[tuple[str, int], Array]()
    for step in range(len(whole.case.steps)):
        here = target(run, key := f"{HERE}.o_proj", step)
        changed = None if here is None else here.predicted(Edit("", "", PLAIN, changes))
        if changed is not None:
            wrong[key, step] = changed
    return wrong


def said(case: str, changes: dict[Site, Change]) -> str:
    """What is said of layer 0 with these changes in every step."""
    return first_of(case, predicted(case, changes, BY_MODULES), BY_MODULES)


def in_eight_bits(x: Array) -> Array:
    return np.asarray(torch.from_numpy(np.float32(x)).to(torch.float8_e4m3fn).to(torch.float64))


def by_rows(x: Array) -> Array:
    scale = np.abs(x).max(-1, keepdims=True) / 448
    return in_eight_bits(x / np.where(scale > 0, scale, 1)) * scale


def entering(kinds: tuple[str, ...], narrow: Callable[[Array], Array]) -> dict[Site, Change]:
    """What attention reads in few bits: a cache's tap, or of a window more than that."""
    names = [name for kind in kinds for name in (f"layers.*.self_attn.{kind}", f"cache.*.{kind}s")]
    return {Site(TAP, 0, name): lambda call: narrow(np.asarray(call.plain())) for name in names}


TYPES = {"float8 (e4m3)": in_eight_bits, "float8 (e4m3) with a scale for each row": by_rows}


@pytest.mark.parametrize("case", ["model/qwen3_moe", "model/gpt_oss"])
@pytest.mark.parametrize("narrow", TYPES)
@pytest.mark.parametrize("kinds", [("key", "value"), ("value",)])
def test_keys_and_values_in_few_bits_are_told_without_a_caches_taps(
    kinds: tuple[str, ...], narrow: str, case: str
) -> None:
    """In gpt-oss one line turns queries and keys: what is in few bits is what enters the cache."""
    names = " and ".join(f"{kind}s" for kind in kinds)
    answer = said(case, entering(kinds, TYPES[narrow]))
    assert answer.startswith(f"edit.rounded: stores {names} in the cache in {narrow}, at")


def test_one_scale_for_all_is_read_off_the_recorded_cache_of_a_window() -> None:
    """Attention reads keys that the cache of a window no longer holds: they are in the same type."""
    case, scale = "model/gpt_oss", 0.05
    whole = golden(case)

    def narrow(x: Array) -> Array:
        return in_eight_bits(np.clip(x / scale, -448, 448)) * scale

    caches = {item.key: narrow(item.values()) for item in whole if item.info.name.startswith("cache.0.")}
    ends = *BY_MODULES, "cache.0.keys", "cache.0.values"
    changes = entering(("key", "value"), narrow)
    wrong = predicted(case, changes, ends)
    assert wrong and caches
    every = faults_of(case, {**caches, **wrong}, ends)
    says = "stores keys and values in the cache in float8 (e4m3) times a scale of the whole"
    assert len(every) > 2
    assert all(fault.explanations and fault.explanations[0].says.startswith(says) for fault in every)


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
