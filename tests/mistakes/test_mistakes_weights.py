"""Wrong parameters and results of linears, computed by torch in float32, get the names of their mistakes."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from seeded import seeded, weights
from torch.nn.functional import linear
from wrong_numbers import evidence, explanations, first_name, golden, said

from qwen3_golden import Array, pb
from qwen3_parity.blame.replay import expected
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.mistakes.rms_norm import weight_of_rows
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

CASE, LAYER = "encdec/ragged", "decoder.layers.1"
ATTENTION = f"{LAYER}.merged_attn"
ALONE = "encoder.layers.1.self_attn.q_proj"
Weight = Callable[[Site, Array], Array]


def product(site: Site, weight: Array, bias: Array | None) -> torch.Tensor:
    x, w = torch.tensor(site.inputs[0]).flatten(2), torch.tensor(np.array(weight, np.float32))
    return linear(x, w, None if bias is None else torch.tensor(np.array(bias, np.float32)))


def of(weight: Weight) -> Callable[[Site], Array]:
    return lambda site: product(site, weight(site, site.parameters["weight"]), site.parameters.get("bias")).numpy()


def groups(site: Site) -> Array:
    """q, k and v of layer 1 stored group by group."""
    q, k, v = (site.checkpoint[f"{ATTENTION}.{name}_proj.weight"].reshape(2, -1, 40) for name in "qkv")
    return np.concatenate([q, k, v], axis=1).reshape(-1, 40)


def gate_and_up(site: Site) -> tuple[Array, Array]:
    return site.checkpoint[f"{LAYER}.mlp.gate_proj.weight"], site.checkpoint[f"{LAYER}.mlp.up_proj.weight"]


def quantised(w: Array) -> Array:
    scale = np.abs(w).max(axis=1, keepdims=True) / 127
    return np.asarray(np.rint(w / scale) * scale)


def shown(w: Array, row: int | slice, column: int | slice, value: Array | float) -> Array:
    changed = w.copy()
    changed[row, column] = value
    return changed


def draws(*shape: int) -> Array:
    return np.random.Generator(np.random.PCG64(0)).standard_normal(shape)


Q, K, O = f"{ATTENTION}.q_proj", f"{ATTENTION}.k_proj", f"{ATTENTION}.o_proj"  # noqa: E741
WEIGHTS: dict[str, tuple[str, str, Weight]] = {
    "the next layer's": (Q, "weight.other_tensor", lambda s, w: s.checkpoint["decoder.layers.2.merged_attn.q_proj.weight"]),
    "the encoder's": (Q, "weight.other_tensor", lambda s, w: s.checkpoint["encoder.layers.1.self_attn.q_proj.weight"]),
    "v for k": (K, "weight.other_tensor", lambda s, w: s.checkpoint[f"{ATTENTION}.v_proj.weight"]),
    "Meta's layout": (Q, "weight.permuted", lambda s, w: w.reshape(6, 2, 5, 40).swapaxes(1, 2).reshape(60, 40)),
    "Meta's layout undone": (Q, "weight.permuted", lambda s, w: w.reshape(6, 5, 2, 40).swapaxes(1, 2).reshape(60, 40)),
    "(in, out)": (Q, "weight.reshaped", lambda s, w: w.reshape(40, 60).T),
    "transposed bytes": (Q, "weight.reshaped", lambda s, w: np.ascontiguousarray(w.T).reshape(60, 40)),
    "heads innermost": (Q, "weight.heads_shuffled", lambda s, w: w.reshape(10, 6, 40).swapaxes(0, 1).reshape(60, 40)),
    "heads rolled": (Q, "weight.heads_shuffled", lambda s, w: np.roll(w, 10, 0)),
    "one head for all": (Q, "weight.heads_shuffled", lambda s, w: np.tile(w[:10], (6, 1))),
    "rows exchanged by twos": (Q, "weight.shards_shuffled", lambda s, w: w.reshape(15, 2, 2, 40)[:, ::-1].reshape(60, 40)),
    "rows in no order": (Q, "weight.permuted", lambda s, w: w[np.random.Generator(np.random.PCG64(0)).permutation(60)]),
    "columns by tiled heads": (O, "weight.heads_shuffled", lambda s, w: w.reshape(40, 2, 3, 10).swapaxes(1, 2).reshape(40, 60)),
    "bfloat16": (Q, "weight.rounded", lambda s, w: torch.tensor(w).bfloat16().float().numpy()),
    "8 bits": (Q, "weight.quantised", lambda s, w: quantised(w)),
    "q of groups": (Q, "weight.fused_layout", lambda s, w: groups(s)[:60]),
    "k of groups": (K, "weight.fused_layout", lambda s, w: groups(s)[60:80]),
    "gate by turns": (f"{LAYER}.mlp.gate_proj", "weight.fused_layout", lambda s, w: np.concatenate(gate_and_up(s))[::2]),
    "up of turns": (f"{LAYER}.mlp.up_proj", "weight.fused_layout", lambda s, w: np.stack(gate_and_up(s), 1).reshape(140, 40)[70:]),
    "rows one on": ("logits", "weight.shifted", lambda s, w: np.roll(w, 1, 0)),
    "an unheard-of factor": (Q, "weight.scaled", lambda s, w: 1.0123 * w),
    "one element": (Q, "weight.unknown", lambda s, w: shown(w, 7, 3, 0.5)),
    "one column": (Q, "weight.unknown", lambda s, w: shown(w, slice(None), 3, 1.5 * w[:, 3])),
    "a row of zeros": (Q, "weight.unknown", lambda s, w: shown(w, 3, slice(None), 0.0)),
}  # fmt: skip


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("what", WEIGHTS)
def test_a_wrong_weight_is_named(what: str) -> None:
    tap, name, weight = WEIGHTS[what]
    case = "encoder/ragged" if tap == ALONE else CASE
    assert first_name(case, tap, of(weight)) == name


def test_a_changed_element_is_told_in_numbers() -> None:
    found = evidence(CASE, Q, of(lambda s, w: shown(w, 7, 3, 0.5)))
    assert explanations(found)[0].says.startswith("has weights of no tensor: [7, 3] is 0.5 for ")


BIASES: dict[str, tuple[str, Callable[[Site, Array], Array | None]]] = {
    "none": ("weight.no_bias", lambda s, b: None),
    "twice": ("weight.bias_twice", lambda s, b: 2 * b),
    "subtracted": ("weight.bias_negated", lambda s, b: -b),
    "another layer's": ("weight.other_tensor", lambda s, b: s.checkpoint["decoder.layers.0.merged_attn.q_proj.bias"]),
    "the encoder's": ("weight.other_tensor", lambda s, b: s.checkpoint["encoder.layers.1.self_attn.q_proj.bias"]),
    "of no tensor": ("weight.other_bias", lambda s, b: b + np.linspace(0, 1, len(b))),
}


@pytest.mark.parametrize("what", BIASES)
def test_a_wrong_bias_is_named(what: str) -> None:
    name, bias = BIASES[what]
    wrong = lambda s: product(s, s.parameters["weight"], bias(s, s.parameters["bias"])).numpy()  # noqa: E731
    assert first_name("encdec/qwen2", Q, wrong) == name


def test_a_bias_that_no_checkpoint_has_is_named() -> None:
    wrong = lambda s: product(s, s.parameters["weight"], np.linspace(-1, 1, 60)).numpy()  # noqa: E731
    assert first_name(CASE, Q, wrong) == "weight.extra_bias"


def test_a_transposed_square_weight_is_named() -> None:
    assert first_name("encdec/qwen2", Q, of(lambda s, w: w.T)) == "weight.transposed"


def test_rows_in_another_order_are_named_beside_a_bias_that_stays() -> None:
    exchanged = of(lambda s, w: w.reshape(len(w) // 4, 2, 2, -1)[:, ::-1].reshape(w.shape))
    assert first_name("encdec/qwen2", Q, exchanged) == "weight.shards_shuffled"


RESULTS: dict[str, tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "log_softmax": ("logits.log_softmax", lambda y: y.log_softmax(-1)),
    "softmax": ("logits.softmax", lambda y: y.softmax(-1)),
    "soft cap of 30": ("logits.softcap", lambda y: 30 * (y / 30).tanh()),
    "an unheard-of cap": ("logits.softcap", lambda y: 13.3 * (y / 13.3).tanh()),
    "bounded": ("linear.clamped", lambda y: y.clamp(-3, 3)),
    "bfloat16": ("linear.half_precision", lambda y: y.bfloat16().float()),
}


@pytest.mark.parametrize("what", RESULTS)
def test_logits_that_were_changed_afterwards_are_named(what: str) -> None:
    name, change = RESULTS[what]
    wrong = lambda s: change(product(s, s.parameters["weight"], None)).numpy()  # noqa: E731
    assert first_name(CASE, "logits", wrong) == name


def cut(x: Array) -> Array:
    """float32 with the 13 lowest bits cut off."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize("narrow", [cut, lambda x: torch.tensor(x).bfloat16().float().numpy()])
def test_a_product_of_narrower_numbers_is_named(narrow: Callable[[Array], Array]) -> None:
    def wrong(site: Site) -> Array:
        x, w = (torch.tensor(narrow(one)) for one in (site.inputs[0], site.parameters["weight"]))
        return linear(x, w).numpy()

    assert first_name(CASE, Q, wrong) == "linear.half_precision"


@pytest.mark.parametrize("tap", [Q, O, "logits"])
def test_an_honest_product_needs_no_explanation(tap: str) -> None:
    found = evidence(CASE, tap, of(lambda s, w: w))
    assert found.share(expected(found)) <= 1


def test_numbers_that_are_wrong_in_one_batch_row_alone_are_no_unknown_weight() -> None:
    def wrong(site: Site) -> Array:
        y = of(lambda s, w: w)(site).copy()
        y[0] += draws(*y[0].shape)
        return y

    assert "weight.unknown" not in [one.name for one in explanations(evidence(CASE, Q, wrong))]


def without_last(count: int) -> Callable[[Site], Array]:
    def wrong(site: Site) -> Array:
        x, w = torch.tensor(site.inputs[0]).flatten(2), torch.tensor(site.parameters["weight"])
        return linear(x[..., :-count], w[:, :-count]).numpy()

    return wrong


MEMORY_K = f"{ATTENTION}.encoder_k_proj"
DROPPED = [(MEMORY_K, 1), (MEMORY_K, 8), (ALONE, 3), (f"{LAYER}.mlp.down_proj", 6), (Q, 2), (O, 4)]


@pytest.mark.parametrize(("tap", "count"), DROPPED)
def test_the_dropped_tail_of_a_product_is_no_foreign_weight(tap: str, count: int) -> None:
    explained = explanations(evidence(CASE, tap, without_last(count)))
    assert {one.name for one in explained} == {"linear.lost_terms"}
    assert f"the last{f' {count}' if count > 1 else ''} of the" in explained[0].says


def test_dropped_first_terms_are_named() -> None:
    wrong = lambda s: product(s, shown(s.parameters["weight"], slice(None), slice(0, 5), 0.0), None).numpy()  # noqa: E731
    assert first_name(CASE, Q, wrong) == "linear.lost_terms"


def test_encoder_rows_count_once_however_many_steps_read_them() -> None:
    found = evidence(CASE, MEMORY_K, of(lambda s, w: draws(*w.shape)))
    positions = int(found.judged.any(axis=-1).sum())
    assert positions < 40 < positions * len(found.site.case.steps)
    assert f"{positions} different positions cannot tell 40 weights" in said(found)[-1].says


FEW: dict[str, Callable[[Site], Array]] = {
    "any weight": of(lambda s, w: draws(60, 40)),
    "inputs rounded to 8 bits": lambda s: (
        product(s, s.parameters["weight"], None).numpy()
        + 0.01 * np.sin(999 * np.asarray(s.inputs[0]).sum(axis=-1, keepdims=True) + np.arange(60, dtype=np.float32))
    ),
}


@pytest.mark.parametrize("what", FEW)
def test_a_weight_that_too_few_positions_tell_is_the_last_thing_to_say(what: str) -> None:
    found = evidence("encoder/ragged", ALONE, FEW[what])
    assert "weight.unknown" not in [one.name for one in explanations(found)]
    last = said(found)[-1]
    assert len(said(found)) > 1 and last.name == "fit.weight"
    assert last.says.startswith("a weight of no tensor of the checkpoint would fit, too: ")


def with_other_weight(site: Site) -> Result:
    weight = site.parameters["weight"]
    other = weight + 0.1 * draws(*weight.shape)
    return OPS[site.place.op].truth(replace(site, parameters={**site.parameters, "weight": other}))


UNKNOWN = {
    "a linear that more positions tell than it has columns": ("generation/greedy", "logits"),
    "a norm": (CASE, "decoder.norm"),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_an_unknown_weight_is_named_unless_the_digest_is_the_checkpoints(what: str) -> None:
    case, place = UNKNOWN[what]
    candidate = seeded(case, {place: with_other_weight})
    (found,) = diagnose(golden(case), candidate, weights(case)).faults
    assert found.name == "weight.unknown"
    loaded = replace(candidate, parameters=golden(case).parameters)
    (found,) = diagnose(golden(case), loaded, weights(case)).faults
    assert "weight.unknown" not in [one.name for one in found.explanations]
    assert not any("compare what is loaded" in one.fix for one in found.explanations)


def test_a_weight_whose_digest_is_another_is_named_however_few_positions_tell_it() -> None:
    case = "encoder/ragged"
    candidate = seeded(case, {"encoder.layers.{layer}.self_attn.q_proj": with_other_weight})
    others = [
        pb.Parameter(name=one.name, dtype=one.dtype, shape=one.shape, sha256=bytes(32)) if "q_proj" in one.name else one
        for one in golden(case).parameters
    ]
    for parameters, name in ((others, "weight.unknown"), ((), "fit.weight")):
        (fault,) = diagnose(golden(case), replace(candidate, parameters=parameters), weights(case)).faults
        assert name in [*(one.name for one in fault.explanations), *(one.name for one in fault.findings)]
        assert ("weight.unknown" in [one.name for one in fault.explanations]) == bool(parameters)


def test_one_position_that_comes_again_tells_no_weight_of_a_norm() -> None:
    tap = f"{LAYER}.input_layernorm"
    found = evidence(CASE, tap)
    row = found.site.inputs[0][:1, :1]
    site = replace(found.site, inputs=(np.repeat(np.repeat(row, found.actual.shape[0], 0), found.actual.shape[1], 1),))
    assert weight_of_rows(site) is None
