"""Ten usual bugs of a port that records its layers' outputs alone: each is named, and nothing else is accused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from detection.derived.seed import Compute
from detection.levels.thinned import diagnosis, recorded
from qwen3_golden import GOLDEN_ROOT, Array, tensor
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.diagnose import diagnose
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.report.diagnoses import explained
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site


def truth(site: Site) -> Array:
    return OPS[site.place.op].truth(site)[0]


def exact(y: Array) -> Result:
    return y, np.zeros_like(y, np.float64)


def interleaved(site: Site) -> Result:
    x, cos, sin = site.inputs
    x = heads_first(x, site.config.head_dim)
    half = x.shape[-1] // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    even, odd = x[..., ::2], x[..., 1::2]
    turned = np.stack((even * cos - odd * sin, odd * cos + even * sin), -1)
    return exact(turned.reshape(x.shape))


def tiled(site: Site) -> Result:
    """KV heads 0 1 0 1 where 0 0 1 1 belong: the right op on query heads in another order, and back."""
    groups = site.config.num_attention_heads // site.config.num_key_value_heads
    kv_heads = site.config.num_key_value_heads
    order = np.arange(groups * kv_heads).reshape(groups, kv_heads).T.ravel()
    queries = site.inputs[0][:, order]
    y = truth(replace(site, inputs=(queries, *site.inputs[1:])))
    back = np.argsort(order)
    return exact(y[:, :, back] if site.place.op == "context" else y[:, back])


def transposed(site: Site) -> Result:
    weight = site.parameters["weight"]
    wrong = np.ascontiguousarray(weight.T).reshape(weight.shape)
    return exact(truth(replace(site, parameters={**site.parameters, "weight": wrong})))


def not_normed(site: Site) -> Result:
    return exact(site.inputs[0].reshape(truth(site).shape))


def normed_late(site: Site) -> Result:
    turned = truth(site)
    weight = site.checkpoint[site.place.name.replace("encoder_", "").replace("_rope", "_norm.weight")]
    mean = (turned**2).mean(-1, keepdims=True) + site.config.rms_norm_eps
    return exact(turned / np.sqrt(mean) * weight)


def other_eps(site: Site) -> Result:
    return exact(truth(replace(site, config=replace(site.config, rms_norm_eps=1e-5))))


def one_behind(site: Site) -> Result:
    return exact(truth(site) + (site.step > 0))


def first_input(site: Site) -> Result:
    return exact(site.inputs[0])


def second_input(site: Site) -> Result:
    return exact(site.inputs[1])


def no_padding(site: Site) -> Result:
    y = truth(site)
    hidden = ~y.any(axis=1, keepdims=True)
    past = np.arange(y.shape[2])[None, :] <= np.arange(y.shape[1])[:, None] + site.stop - y.shape[1]
    return exact(y | (hidden & past))


def not_updated(site: Site) -> Result | None:
    if site.before is None or not site.step:
        return None
    new = truth(site).shape[2] - site.before.shape[2]
    return exact(np.concatenate((site.before, np.repeat(site.before[:, :, -1:], new, 2)), 2))


def held_in_8_bits(site: Site) -> Result | None:
    """What was there before the step, as float8."""
    if site.before is None or not site.step:
        return None
    y = np.array(truth(site), np.float32)
    older = torch.from_numpy(np.array(site.before, np.float32)).to(torch.float8_e4m3fn)
    y[:, :, : older.shape[2]] = older.float().numpy()
    return exact(y)


ATTENTION = "*_attn."
BUGS: Mapping[str, tuple[Mapping[str, Compute], str]] = {
    "interleaved": ({"*_rope": interleaved}, "rope.interleaved"),
    "tiled": ({"*.scores": tiled, "*.context": tiled}, "context.kv_heads_tiled"),
    "transposed": ({"*k_proj": transposed, "*v_proj": transposed}, "weight.reshaped"),
    "norm_after_rope": (
        {"*.[qk]_norm": not_normed, "*encoder_k_norm": not_normed, "*_rope": normed_late},
        "rope.before_norm",
    ),
    "eps": ({"*norm": other_eps}, "norm.eps"),
    "position": ({"decoder.position_ids": one_behind}, "positions.offset"),
    "final_norm": ({"decoder.norm": first_input}, "norm.no_norm"),
    "padding": ({"decoder.*.mask": no_padding}, "mask.padding_ignored"),
    "stale": ({"*.cache_keys": not_updated, "*.cache_values": not_updated}, "cache.stale"),
    "mlp_residual": ({"*.layers.*.output": second_input}, "residual.missing"),
}


HELD: Mapping[str, tuple[Mapping[str, Compute], str]] = {
    "float8": ({"*.cache_keys": held_in_8_bits, "*.cache_values": held_in_8_bits}, "cache.half_precision"),
}
"""By logits alone such a search ends too early where there is an encoder, too."""


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("bug", [*BUGS, *HELD])
@pytest.mark.parametrize("case", ["models/qwen3-8b", pytest.param("encdec/ragged", marks=pytest.mark.slow)])
def test_a_bug_is_named_from_layer_outputs(case: str, bug: str) -> None:
    wrong, name = {**BUGS, **HELD}[bug]
    faults = diagnosis(case, wrong, "layer").faults
    assert faults and {fault.name for fault in faults} == {name}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("level", ["fused", "modules", "sub-layer", "logits"])
def test_a_bug_is_named_at_every_level(level: str, bug: str) -> None:
    wrong, name = BUGS[bug]
    names = {fault.name for fault in diagnosis("encdec/ragged", wrong, level).faults}
    assert name in names and names <= {name, "norm.no_norm"}  # q_norm's tap is what goes through it where it stands


def halved(site: Site) -> Result:
    return exact(truth(site) / 2)


def test_a_classic_block_whose_output_is_a_norm_is_diagnosed_from_layer_outputs() -> None:
    (fault,) = diagnosis("classic/bert", {"post_norm.layers.*.norm2": halved}, "layer").faults
    assert "post_norm.layers.{layer}.norm2" in fault.places


def larger(site: Site) -> Result:
    return exact(truth(site) * 1.25)


@pytest.mark.slow
def test_a_factor_inside_a_group_is_solved_for() -> None:
    (fault,) = diagnosis("decoder/plain", {"*.merged_attn.probs": larger}, "layer").faults
    assert {explanation.name for explanation in fault.explanations} >= {"softmax.scaled"}
    assert "1.25" in fault.explanations[0].says


def negated(site: Site) -> Result:
    """With the factor -0.5 for the root of head_dim."""
    return exact(truth(site) / site.scaling * -0.5)


@pytest.mark.slow
def test_a_factor_of_scores_is_found_though_it_is_far_from_the_right_one() -> None:
    (fault,) = diagnosis("decoder/plain", {"*.merged_attn.scores": negated}, "fused").faults
    assert {explanation.name for explanation in fault.explanations} == {"scores.scale"}
    assert "the factor -0.5, not 0.316228" in fault.explanations[0].says


def no_attention(site: Site) -> Result:
    return exact(site.inputs[0])


@pytest.mark.slow
def test_a_branch_that_is_not_added_is_plainer_than_a_cache_that_holds_nothing() -> None:
    (fault,) = diagnosis("decoder/ragged_decode", {"decoder.*.attn_residual": no_attention}, "layer").faults
    assert fault.name == "residual.branch_missing"


def nonsense(site: Site) -> Result:
    y = truth(site)
    return exact(y + np.random.default_rng(y.size).standard_normal(y.shape))


@pytest.mark.slow
def test_where_no_mistake_is_known_the_tap_to_record_next_halves_the_group() -> None:
    (fault,) = diagnosis("decoder/plain", {"*.mlp.act": nonsense}, "layer").faults
    assert not fault.explanations
    assert fault.record.startswith("record decoder.layers.0.") and "of 20 hidden ops" in fault.record


def test_a_search_that_ends_too_early_says_that_not_every_mistake_was_tried() -> None:
    wrong, _ = BUGS["interleaved"]
    (fault,) = diagnosis("decoder/plain", wrong, "layer", work=0).faults
    assert fault.stopped and not fault.cut and not fault.explanations
    assert "--effort" in to_text(fault)


def test_a_search_that_the_clock_cuts_says_that_another_answer_may_follow() -> None:
    wrong, _ = BUGS["interleaved"]
    golden, candidate = recorded("decoder/plain", wrong, "layer")
    weights = weights_of(golden, GOLDEN_ROOT / "checkpoints")
    (fault,) = diagnose(golden, candidate, weights, deadline=1.0, clock=lambda: 2.0).faults
    assert fault.stopped and fault.cut and not fault.explanations
    assert "--budget cut the search" in to_text(fault)


@pytest.mark.slow
def test_a_search_ends_after_the_same_work_with_the_same_answer() -> None:
    work = 50_000_000
    first, second = (diagnosis("decoder/plain", {"*.mlp.act": nonsense}, "layer", work=work) for _ in range(2))
    assert [fault.stopped for fault in first.faults] == [True]
    assert work <= first.work < 2 * work
    assert first.work == second.work
    assert [to_text(fault) for fault in first.faults] == [to_text(fault) for fault in second.faults]


def to_text(fault: Explained) -> str:
    console = Console(width=200)
    with console.capture() as text:
        console.print(*explained(fault))
    return text.get()


PAIRS = (
    ("interleaved", "tiled", "layer", "context.kv_heads_tiled+rope.interleaved"),
    ("transposed", "interleaved", "layer", "rope.interleaved+weight.reshaped"),
    ("norm_after_rope", "tiled", "modules", "context.kv_heads_tiled+rope.before_norm"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second", "level", "name"), PAIRS)
def test_two_mistakes_in_one_group_are_both_named(first: str, second: str, level: str, name: str) -> None:
    faults = diagnosis("decoder/plain", {**BUGS[first][0], **BUGS[second][0]}, level).faults
    assert name in {fault.name for fault in faults}


def one_more_of_another(site: Site) -> Result:
    keys = site.checkpoint[site.place.name.replace("q_norm", "k_norm.weight")]
    return exact(truth(replace(site, parameters={"weight": 1 + keys})))


def late_and_biased(site: Site) -> Result:
    """The states one position late, and a bias that the projection does not have."""
    bias = site.checkpoint[f"decoder.layers.{site.place.layer}.input_layernorm.weight"]
    moved = np.roll(site.inputs[0], 1, 1)
    moved[:, 0] = 0
    return exact(truth(replace(site, inputs=(moved,), parameters={**site.parameters, "bias": bias})))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tap", "wrong", "name"),
    [
        ("decoder.*.q_norm", one_more_of_another, "norm.one_plus_weight+weight.other_tensor"),
        pytest.param("decoder.*.o_proj", late_and_biased, "weight.extra_bias+wiring.shifted", marks=pytest.mark.slow),
    ],
)
def test_two_mistakes_in_one_op_are_both_named(tap: str, wrong: Compute, name: str) -> None:
    (fault,) = diagnosis("decoder/plain", {tap: wrong}, "all").faults
    assert fault.name == name


@pytest.mark.parametrize(
    ("tap", "level"),
    [("decoder.layers.1.merged_attn.cache_keys", "all"), ("decoder.layers.1.merged_attn.o_proj", "sub-layer")],
)
def test_numbers_of_another_shape_are_no_pair_of_mistakes_and_no_factor(tap: str, level: str) -> None:
    golden, candidate = recorded("decoder/ragged_decode", {}, level)
    item = candidate[tap, 1]
    longer = np.random.default_rng(0).standard_normal((*item.array.shape[:-1], item.array.shape[-1] + 1))
    wrong = tensor(tap, longer.astype(np.float32), step=1, axes=item.info.axes, op=item.info.op)
    spoilt = replace(candidate, tensors=[wrong if old.key == item.key else old for old in candidate])
    outcome = diagnose(golden, spoilt, weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    (fault,) = (fault for fault in outcome.faults if fault.fault.wrong[0].name == tap)
    assert not fault.explanations


def rolled_heads(site: Site) -> Result:
    y, unit = OPS["context"].truth(site)
    return np.roll(y, 1, axis=2), unit


def test_heads_in_another_order_are_named_where_the_context_has_no_tap() -> None:
    (fault,) = diagnosis("encoder/ragged", {"encoder.*.context": rolled_heads}, "sub-layer").faults
    assert fault.name == "context.head_order"


def last_of_the_prompt_lost(site: Site) -> Result:
    y, unit = OPS["cache"].truth(site)
    stop = site.case.steps[0]
    if site.step:
        y[:, :, stop - 1] = y[:, :, stop - 2]
    return y, unit


def test_what_spoils_fewer_right_cells_of_a_tap_comes_first() -> None:
    (said,) = diagnosis("decoder/ragged_decode", {"*.cache_values": last_of_the_prompt_lost}, "sub-layer").faults
    assert said.name == "cache.slot_map"  # which spoils none
    names = [beside.says.rpartition(" ")[2] for beside in said.findings if beside.name == "fit.few_taps"]
    assert names[0] == "(cache.shifted)"


def test_when_the_search_is_over_no_mistake_in_a_group_is_thought_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def thought_of(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("qwen3_parity.diagnosis.judged.every_suspect", thought_of)
    (fault,) = diagnosis("encoder/ragged", {"*[qk]_rope": interleaved}, "logits", work=0).faults
    assert fault.stopped and not fault.explanations
