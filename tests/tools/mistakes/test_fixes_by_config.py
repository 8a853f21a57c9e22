"""What to change is said by the configuration: a port that does it is right."""

from __future__ import annotations

import numpy as np
import pytest
from seeded import Compute, changed, fault
from wrong_numbers import golden

from qwen3_golden import Array
from qwen3_parity.blame.values import Values
from qwen3_parity.mistakes.by_op import LIBRARY
from qwen3_parity.mistakes.observed import every_guess
from qwen3_spec import ops
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

YARN, LLAMA3, PLAIN, WINDOW = "decoder/yarn_stated", "llama/beyond_original", "decoder/plain", "decoder/window_chunks"
Q_ROPE = "decoder.layers.{layer}.merged_attn.q_rope"


def unscaled(y: Array, site: Site) -> Array:
    return y / site.config.attention_factor


def hard_threshold(site: Site) -> Result:
    """Frequencies divided, or not, on either side of a number of turns between the two that are stated."""
    y, unit = OPS["inv_freq"].truth(site)
    plain, scaling = ops.inv_freq.forward(2 * len(y), site.config.rope_theta), site.config.rope_scaling
    assert scaling is not None
    turns = scaling.original_max_position_embeddings * plain / (2 * np.pi)
    middle = (scaling.low_freq_factor + scaling.high_freq_factor) / 2
    return np.where(turns > middle, plain, plain / scaling.factor), unit


def test_a_query_without_yarns_factor_is_told_the_factor() -> None:
    explained = fault(YARN, {Q_ROPE: changed(unscaled)})
    factor = golden(YARN).case.config.rope_scaling.attention_factor
    assert [explanation.name for explanation in explained.explanations] == ["yarn.attention_factor"]
    assert f"attention_factor, which is {factor:.7g} here" in explained.explanations[0].fix


@pytest.mark.parametrize("factor", [1.2345, 0.5])
def test_any_other_factor_is_told_beside_yarns(factor: float) -> None:
    explained = fault(YARN, {Q_ROPE: changed(lambda y, _: np.asarray(factor * y))})
    assert (
        explained.name == "yarn.attention_factor"
        and f"is multiplied by {factor * 1.07:.7g}" in explained.explanations[0].says
    )


def test_wrong_frequencies_of_llama3_are_told_its_numbers() -> None:
    explained = fault(LLAMA3, {"decoder.inv_freq": hard_threshold})
    scaling = golden(LLAMA3).case.config.rope_scaling
    fix = explained.explanations[0].fix
    for key in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"):
        assert f"{key} {getattr(scaling, key):g}" in fix


def fixes(case: str, tap: str) -> dict[str, set[str]]:
    """By name, every fix that the library has for a tap of a case that is right."""
    weights: dict[str, Array] = {}
    site = Values(golden(case), weights, golden(case)).site(tap, 0)
    assert site is not None
    by_name: dict[str, set[str]] = {}
    with every_guess(), np.errstate(all="ignore"):
        for library in LIBRARY[site.place.op]:
            for hypothesis in library(site):
                by_name.setdefault(hypothesis.name, set()).add(hypothesis.fix)
    return by_name


@pytest.mark.parametrize("case", [YARN, LLAMA3])
@pytest.mark.parametrize("tap", ["decoder.inv_freq", "decoder.cos"])
def test_no_fix_makes_plain_frequencies_where_they_are_stretched(case: str, tap: str) -> None:
    scaling = golden(case).case.config.rope_scaling
    formulas = [fix for every in fixes(case, tap).values() for fix in every if "rope_theta **" in fix]
    assert formulas and all(
        f"rope_scaling is {scaling.rope_type} with factor {scaling.factor:g}" in fix for fix in formulas
    )


def test_plain_frequencies_have_the_cases_numbers() -> None:
    config = golden(PLAIN).case.config
    (fix,) = fixes(PLAIN, "decoder.inv_freq")["table.theta"]
    assert f"rope_theta {config.rope_theta:.10g} and head_dim {config.head_dim}" in fix and "rope_scaling" not in fix


MASKED: dict[str, tuple[str, str]] = {
    WINDOW: ("with sliding_window 5, in the layers that layer_types calls sliding_attention (", "in no other"),
    PLAIN: ("no layer has a window: sliding_window is not set", ""),
}


@pytest.mark.parametrize("case", MASKED)
def test_a_wrong_window_is_told_the_configurations(case: str) -> None:
    wrong: Compute = changed(
        lambda m, s: m & (np.arange(m.shape[2]) > s.stop - s.length + np.arange(m.shape[1])[:, None] - 3)
    )
    explained = fault(case, {"decoder.layers.{layer}.merged_attn.mask": wrong})
    window = [explanation for explanation in explained.explanations if explanation.name.startswith("mask.window")]
    assert window and all(text in explanation.fix for explanation in window for text in MASKED[case])


def test_a_network_without_qk_norm_is_not_sent_behind_one() -> None:
    texts = {
        case: [fix for every in fixes(case, "decoder.layers.0.merged_attn.q_rope").values() for fix in every]
        for case in (PLAIN, "llama/plain")
    }
    assert any("after QK-norm" in fix for fix in texts[PLAIN])
    assert not any("after QK-norm" in fix for fix in texts["llama/plain"])
