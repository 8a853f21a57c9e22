"""Replaying ops: honest float32 is within the units, one wrong op is blamed alone, whatever comes after it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from qwen3_golden import pb, to_bfloat16
from qwen3_parity import replay

SITE = "decoder.layers.0.merged_attn"


def blamed(recording, weights):
    return {(verdict.name, verdict.step) for verdict in replay(recording, weights) if not verdict.passed}


def test_every_op_of_an_honest_run_is_judged_and_passes(world):
    verdicts = replay(world.golden, world.weights)
    assert all(verdict.passed and not verdict.reason for verdict in verdicts)
    assert len(verdicts) == len(world.golden.tensors) - 6


def test_errors_are_counted_in_units_and_shares_in_headrooms(world):
    verdict = next(verdict for verdict in replay(world.golden, world.weights) if verdict.name == "logits")
    assert 0 < verdict.errors.rms <= verdict.errors.max < 8 and 0 < verdict.share < 1


def scaled(array):
    array *= np.float32(1.001)


# A tap that is off is blamed itself, and so is its consumer, whose recorded input is not what it was given.
@pytest.mark.parametrize(
    ("name", "step", "consumers"),
    [
        ("logits", 1, set()),
        ("encoder.norm", 0, None),
        (f"{SITE}.q_norm", 1, {(f"{SITE}.q_rope", 1)}),
        (f"{SITE}.q_rope", 0, {(f"{SITE}.scores", 0)}),
        (f"{SITE}.probs", 0, {(f"{SITE}.context", 0)}),
        (f"{SITE}.scores", 0, {(f"{SITE}.probs", 0)}),
        (f"{SITE}.context", 1, {(f"{SITE}.o_proj", 1)}),
        ("decoder.layers.1.mlp.act", 0, {("decoder.layers.1.mlp.down_proj", 0)}),
        ("decoder.layers.1.attn_residual", 0, None),
    ],
)
def test_a_scaled_tap_is_blamed_with_its_consumers_alone(world, name, step, consumers):
    taps = blamed(world.changed(name, scaled, step), world.weights)
    assert (name, step) in taps
    if consumers is not None:
        assert taps == {(name, step)} | consumers


@pytest.mark.parametrize(
    "name",
    [
        "encoder.inv_freq",
        "encoder.cos",
        "decoder.sin",
        "encoder.embed_tokens",
        "encoder.layers.1.input",
        "encoder.layers.0.input_layernorm",
        "decoder.layers.0.output",
        f"{SITE}.encoder_k_proj",
        f"{SITE}.encoder_k_norm",
        f"{SITE}.encoder_k_rope",
        f"{SITE}.cache_keys",
        f"{SITE}.cache_values",
        f"{SITE}.cache_encoder_keys",
        f"{SITE}.cache_encoder_values",
    ],
)
def test_every_kind_of_op_can_be_blamed(world, name):
    assert (name, 0) in blamed(world.changed(name, scaled), world.weights)


def test_a_wrong_position_is_blamed(world):
    def shifted(ids):
        ids += 1

    assert ("decoder.position_ids", 1) in blamed(world.changed("decoder.position_ids", shifted, 1), world.weights)


def test_a_wrong_mask_is_blamed_in_a_real_row(world):
    def shown(mask):
        mask[0, 0, 2] = True

    assert (f"{SITE}.mask", 0) in blamed(world.changed(f"{SITE}.mask", shown), world.weights)


def test_a_wrong_mask_in_a_padded_row_is_not_blamed(world):
    def shown(mask):
        mask[1, 0] = True

    assert blamed(world.changed(f"{SITE}.mask", shown), world.weights) == set()


def test_a_cache_that_forgot_the_step_before_is_blamed(world):
    def forgotten(cache):
        cache[:, :, 1] = 0

    assert blamed(world.changed(f"{SITE}.cache_keys", forgotten, 1), world.weights) >= {(f"{SITE}.cache_keys", 1)}


def test_an_encoder_half_that_changes_between_steps_is_blamed(world):
    name = f"{SITE}.cache_encoder_values"
    assert (name, 1) in blamed(world.changed(name, scaled, 1), world.weights)


def test_a_nan_is_blamed_where_it_first_appears_and_not_judged_after(world):
    def nan(array):
        array[:] = np.nan

    name = "decoder.layers.0.mlp.gate_proj"
    verdicts = replay(world.changed(name, nan), world.weights)
    assert [verdict.name for verdict in verdicts if not verdict.passed] == [name]
    act = next(verdict for verdict in verdicts if verdict.name == "decoder.layers.0.mlp.act" and verdict.step == 0)
    assert act.reason == "an input is not finite"


def test_a_nan_in_one_row_leaves_the_other_rows_judged(world):
    def nan(array):
        array[0, 0] = np.nan

    name = "decoder.layers.0.mlp.gate_proj"
    verdicts = replay(world.changed(name, nan), world.weights)
    act = next(verdict for verdict in verdicts if verdict.name == "decoder.layers.0.mlp.act" and verdict.step == 0)
    assert act.passed and not act.reason


def test_an_op_whose_input_was_not_recorded_is_judged_together_with_it(world):
    verdicts = replay(world.without("decoder.layers.0.mlp.up_proj", 1), world.weights)
    act = next(verdict for verdict in verdicts if verdict.name == "decoder.layers.0.mlp.act" and verdict.step == 1)
    assert (act.others, act.passed, act.reason) == (("decoder.layers.0.mlp.up_proj",), True, "")


def test_an_op_whose_inputs_cannot_be_had_says_so(world):
    lost = world.with_tensors(t for t in world.golden if not t.info.name.startswith("input.decoder"))
    verdict = next(verdict for verdict in replay(lost, world.weights) if verdict.name == "decoder.position_ids")
    assert (verdict.reason, verdict.passed) == ("an input was not recorded", True)


def test_another_shape_is_blamed(world):
    short = world.golden["logits", 1].array[:, :, :-1].copy()
    verdict = next(
        o for o in replay(world.holding("logits", short, 1), world.weights) if (o.name, o.step) == ("logits", 1)
    )
    assert verdict.share == math.inf


def test_a_wrong_weight_is_blamed_everywhere_it_is_used(world):
    name = f"{SITE}.k_proj"
    weights = {**world.weights, f"{name}.weight": world.weights[f"{name}.weight"] * np.float32(1.001)}
    assert blamed(world.golden, weights) == {(name, 0), (name, 1), (f"{SITE}.encoder_k_proj", 0)}


def test_a_weight_that_is_not_there_is_an_error_and_no_pass(world):
    weights = {name: value for name, value in world.weights.items() if name != "decoder.norm.weight"}
    with pytest.raises(KeyError, match=r"decoder\.norm"):
        replay(world.golden, weights)


@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (1.05, False)])
def test_half_precision_is_allowed_one_rounding_of_its_result(world, factor, passes):
    bits = to_bfloat16(world.golden["logits", 0].array * np.float32(factor))
    taps = blamed(world.holding("logits", bits, dtype=pb.BF16), world.weights)
    assert (("logits", 0) not in taps) is passes


def test_a_window_hides_what_lies_before_it(world):
    golden = replace(world.golden, case=pb.Case.FromString(world.golden.case.SerializeToString()))
    golden.case.config.layer_types[0] = "sliding_attention"
    golden.case.config.sliding_window = 2
    assert {name for name, _ in blamed(golden, world.weights)} == {
        f"{SITE}.mask",
        "encoder.layers.0.self_attn.mask",
    }


def other_tables(world, turned):
    """A port whose cos and sin are its own: q_rope turned by them, or by the golden's."""
    from qwen3_spec import ops

    port = world
    for name in ("decoder.cos", "decoder.sin"):
        table = world.golden[name, 0].array + np.float32(1e-3)
        port = replace(port, golden=port.holding(name, table))
    tables = [(port if turned == "own" else world).golden[f"decoder.{kind}", 0].array for kind in ("cos", "sin")]
    for layer in range(2):
        site = f"decoder.layers.{layer}.merged_attn"
        for kind in "qk":
            x = np.swapaxes(world.golden[f"{site}.{kind}_norm", 0].array, 1, 2)
            y = ops.rope.forward(x, *tables).astype(np.float32)
            port = replace(port, golden=port.holding(f"{site}.{kind}_rope", y))
    return port.golden


@pytest.mark.parametrize("turned", ["own", "golden"])
def test_a_rotation_is_right_by_the_ports_own_tables_and_by_the_goldens(world, turned):
    verdicts = replay(other_tables(world, turned), world.weights, world.golden)
    assert not [verdict.name for verdict in verdicts if not verdict.passed and "rope" in verdict.name]
