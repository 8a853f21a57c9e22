"""What holds for any op: its steps are those it takes, and a narrower type at one of them is said in its words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from wrong_numbers import evidence, explanations, first_name

from qwen3_golden import Array
from qwen3_parity.mistakes.generic import either_way, rounded_at, steps_at
from qwen3_parity.mistakes.rounding import bfloat16
from qwen3_spec import FLOAT64, ops
from qwen3_spec.ops import OPS
from qwen3_spec.ops.context import all_values
from qwen3_spec.site import Site

CASE, CLASSIC = "decoder/plain", "classic/pre_norm"
ATTENTION = "decoder.layers.1.merged_attn"
PLACES = {
    "rms_norm": (CASE, "decoder.norm"),
    "head_norm": (CASE, f"{ATTENTION}.q_norm"),
    "linear": (CASE, f"{ATTENTION}.o_proj"),
    "rope": (CASE, f"{ATTENTION}.k_rope"),
    "cos": (CASE, "decoder.cos"),
    "sin": (CASE, "decoder.sin"),
    "scores": (CASE, f"{ATTENTION}.scores"),
    "softmax": (CASE, f"{ATTENTION}.probs"),
    "context": (CASE, f"{ATTENTION}.context"),
    "swiglu": (CASE, "decoder.layers.1.mlp.act"),
    "residual": (CASE, "decoder.layers.1.output"),
    "layer_norm": (CLASSIC, "pre_norm.layers.0.norm1"),
    "activation": (CLASSIC, "pre_norm.layers.0.feed_forward.act"),
    "scaled_sum": (CLASSIC, "pre_norm.embeddings"),
}


def steps_of(op: str) -> tuple[Site, list[str]]:
    site = evidence(*PLACES[op]).site
    return site, steps_at(site)


def test_every_op_with_steps_is_looked_at() -> None:
    assert {name for name, op in OPS.items() if op.steps} == set(PLACES)


@pytest.mark.parametrize("op", PLACES)
def test_an_op_takes_its_steps_in_their_order(op: str) -> None:
    site, passed = steps_of(op)
    taken: list[str] = []

    def at(step: str, value: Array) -> Array:
        taken.append(step)
        return value

    OPS[op].at_site(site, FLOAT64, at)
    assert list(dict.fromkeys(taken)) == passed and passed[-1] == taken[-1] == OPS[op].steps[-1]
    assert set(OPS[op].stored) <= set(OPS[op].steps[:-1])


@pytest.mark.parametrize("op", PLACES)
def test_a_rounding_at_every_step_shows_and_none_changes_nothing(op: str) -> None:
    site, passed = steps_of(op)
    unrounded = rounded_at(site, (), bfloat16)
    np.testing.assert_array_equal(unrounded, rounded_at(site, passed[-1:], bfloat16))
    wrong = [step for step in passed[:-1] if np.array_equal(unrounded, rounded_at(site, [step], bfloat16))]
    assert wrong == (["positions"] if op in ("cos", "sin") else [])


def test_a_value_near_a_tie_may_go_either_way_and_others_may_not() -> None:
    site, _ = steps_of("residual")
    stream = np.full(site.inputs[0].shape, 1.0)
    stream[0, 0, 0] = 1 + 2.0**-8  # halfway between two bfloat16
    y, low, high = either_way(replace(site, inputs=(stream, site.inputs[1])), ["stream"], bfloat16)
    assert np.argwhere(low != high).tolist() == [[0, 0, 0]]
    np.testing.assert_array_equal(y[low == high], low[low == high])


def narrow(op: str) -> Iterator[str]:
    _, passed = steps_of(op)
    for step in passed[:-1]:
        if step == "positions":
            continue  # of a short text: whole numbers that bfloat16 holds

        def wrong(site: Site, step: str = step) -> Array:
            return rounded_at(site, [step], bfloat16)

        hypotheses = explanations(evidence(*PLACES[op], wrong))
        if not any(hypothesis.name.endswith("half_precision") and step in hypothesis.says for hypothesis in hypotheses):
            yield step


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("op", PLACES)
def test_a_step_in_bfloat16_is_said_by_its_name(op: str) -> None:
    assert not list(narrow(op))


def scores_without_a_tail(site: Site) -> Array:
    """Channels beyond the last whole block of 4."""
    whole = site.config.head_dim // 4 * 4
    return ops.scores.forward(site.inputs[0][..., :whole], site.inputs[1][..., :whole], site.scaling)


def context_without_a_tail(site: Site) -> Array:
    """Keys beyond the last whole block of 4."""
    whole = site.inputs[0].shape[-1] // 4 * 4
    return ops.context.forward(site.inputs[0][..., :whole], all_values(site)[:, :, :whole])


@pytest.mark.parametrize("wrong", [scores_without_a_tail, context_without_a_tail])
def test_the_tail_of_a_block_that_is_lost_is_named(wrong: Callable[[Site], Array]) -> None:
    op = wrong.__name__.partition("_")[0]
    assert first_name(*PLACES[op], wrong) == f"{op}.lost_terms"
