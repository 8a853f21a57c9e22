"""What is read or added that nobody recorded is found among the values within a layer.

It runs `grammar.reads`, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from by_taps import first_of, firsts, golden, weights
from test_recurrences import region

from qwen3_golden import Array
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.edits.grammar.reads import reads
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import named

CASE, LAYER = "model/qwen3_moe", "model.layers.0"
RECORDED = (LAYER, f"{LAYER}.self_attn.o_proj", "model.embed_tokens")


def by_its_result(values: Array) -> list[str]:
    """What is said of a layer of which its attention and its result were recorded."""
    whole = golden(CASE)
    tensors = [
        replace(item, array=values) if item.info.name == LAYER else item
        for item in whole
        if not item.info.step and (item.info.name.startswith("input.") or item.info.name in RECORDED)
    ]
    (fault,) = diagnose(whole, replace(whole, tensors=tensors), weights(CASE), partial=True).faults
    return [explanation.says for explanation in fault.explanations[:1]]


def test_a_value_within_a_layer_that_is_added_once_too_often_is_said() -> None:
    values = golden(CASE)[LAYER, 0].array + golden(CASE)[f"{LAYER}.post_attention_layernorm", 0].array
    (says,) = by_its_result(values)
    assert says.startswith("adds layers.*.post_attention_layernorm, too, in add, at modeling_qwen3_moe.py:")


@pytest.fixture(scope="module")
def rule() -> Region:
    """A delta rule in chunks: sums of decays that several ops read, and a name that is bound anew."""
    return region()


def changed(rule: Region, says: str) -> tuple[Array, list[Array]]:
    """What the op of an edit gives with it, and what it reads without one."""
    edit = next(edit for edit in reads(rule) if edit.says == says)
    (value,) = rule.at(*edit.changes)
    node, values = rule.node(value), rule.values(edit)
    assert node is not None and values is not None
    return values[value], [rule.base[read] for read in node.reads]


def test_of_sums_each_is_read_without_the_number_at_its_place(rule: Region) -> None:
    result, (sums,) = changed(rule, "reads sums of what stands before alone for cum_decay in exp")
    before = np.concatenate([np.zeros_like(sums[..., :1]), sums[..., :-1]], -1)
    np.testing.assert_allclose(result, np.exp(before))


def test_a_name_is_read_as_it_is_bound_later(rule: Region) -> None:
    result, (_, keys) = changed(rule, "reads decayed_k_beta, which is made later, for k_beta in matmul")
    (later,) = (value for value in rule.order if named(rule, value) == "decayed_k_beta")
    np.testing.assert_allclose(result, rule.base[later] @ keys)


WEIGHED = {
    "edit.axis: takes sum along axis 0": lambda top: top / top.sum(0, keepdims=True),
    "edit.sibling: takes softmax, where it divides by the sum": lambda top: np.exp(top) / np.exp(top).sum(-1)[:, None],
    "edit.sibling: divides by the largest, not by the sum": lambda top: top / top.max(-1, keepdims=True),
    "edit.sibling: divides by the length, not by the sum": lambda top: top / np.linalg.norm(top, axis=-1)[:, None],
}


@pytest.mark.parametrize("says", WEIGHED)
def test_what_a_router_does_where_it_divides_by_the_sum_is_said(says: str) -> None:
    """It runs `grammar.softmax` and `grammar.siblings`, too."""
    scores, chosen = (golden(CASE)[f"{LAYER}.mlp.gate{place}", 0].array for place in ("", "[2]"))
    odds = np.exp(scores - scores.max(-1, keepdims=True))
    top = np.take_along_axis(odds / odds.sum(-1, keepdims=True), chosen, -1)
    (first,) = firsts(CASE, {f"{LAYER}.mlp.gate[1]": WEIGHED[says](top), f"{LAYER}.mlp.gate[2]": chosen})
    assert first.startswith(f"{says}, at modeling_qwen3_moe.py:")


def test_a_factor_says_of_which_modules_result_it_is() -> None:
    """It runs `grammar.fitted`, too."""
    name = f"{LAYER}.self_attn.o_proj"
    (says,) = firsts(CASE, {name: 2.5 * golden(CASE)[name, 0].array})
    assert says.startswith("edit.fitted: scales the result of layers.*.self_attn.o_proj by 2.5, at ")


def test_what_another_projection_gave_is_read_by_all_steps() -> None:
    """Keys for values: the cache holds them, too."""
    whole, attention = golden("model/gpt_oss"), "model.layers.0.self_attn"
    taps = [(item.info.step, item) for item in whole if item.info.name == f"{attention}.value"]
    keys = [whole[f"{attention}.k_proj", step].array for step, _ in taps]
    by_heads = [np.swapaxes(x.reshape(*x.shape[:2], -1, item.array.shape[-1]), 1, 2)
                for x, (_, item) in zip(keys, taps, strict=True)]  # fmt: skip
    joined = {(f"{attention}.value", step): np.concatenate(by_heads[: number + 1], 2)[:, :, -item.array.shape[2] :]
              for number, (step, item) in enumerate(taps)}  # fmt: skip
    said = first_of("model/gpt_oss", joined, tuple(f"{attention}.{name}" for name in ("k_proj", "v_proj", "value")))
    assert said.startswith("edit.reads: reads layers.*.self_attn.k_proj for layers.*.self_attn.v_proj, at ")
