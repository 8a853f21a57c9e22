"""Two mistakes in one op: what it is given is changed, and it goes wrong on that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from detection.derived.seed import Compute
from detection.levels.thinned import diagnosis
from qwen3_parity.mistakes.rounding import bfloat16
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_CASE = "decoder/ragged_decode"


def _late(site: Site) -> Site:
    """The keys a position late."""
    return replace(site, inputs=(site.inputs[0], np.roll(site.inputs[1], 1, axis=-2), *site.inputs[2:]))


def _scaled_scores_of_late_keys(site: Site) -> Result:
    y, unit = OPS["scores"].truth(_late(site))
    return y * site.config.head_dim**-0.5, unit


def _other_factor_on_a_shifted_weight(site: Site) -> Result:
    weight = 1.7 * np.roll(site.parameters["weight"], 1, axis=0)
    return OPS["linear"].truth(replace(site, parameters={**site.parameters, "weight": weight}))


def _rest_of_a_negated_branch_left_out(site: Site) -> Result:
    y, unit = OPS["residual"].truth(replace(site, inputs=(site.inputs[0], -site.inputs[1])))
    y = y.copy()
    y[..., y.shape[-1] - y.shape[-1] % 16 :] = 0
    return y, unit


def _rounded_of_another_tap(site: Site) -> Result:
    attention_output = site.values.value(site.place.name.replace("mlp.up_proj", "merged_attn.o_proj"), site.step)
    assert attention_output is not None
    y, unit = OPS["linear"].truth(replace(site, inputs=(attention_output,)))
    return bfloat16(y).astype(np.float64), unit


def _reversed_tokens_of_a_shifted_table(site: Site) -> Result:
    table = {"weight": np.roll(site.parameters["weight"], 1, axis=1)}
    y, unit = OPS["embedding"].truth(replace(site, parameters=table))
    return y[:, ::-1], unit


def _next_heads_of_rounded_keys(site: Site) -> Result:
    keys = np.roll(site.inputs[1].astype(np.float16).astype(np.float64), 1, axis=1)
    return OPS["scores"].truth(replace(site, inputs=(site.inputs[0], keys, *site.inputs[2:])))


def _reversed_weight_of_the_last_layer(site: Site) -> Result:
    """The last layer's own is right."""
    last = site.config.num_hidden_layers - 1
    if site.place.layer == last:
        return OPS["head_norm"].truth(site)
    weight = site.checkpoint[f"decoder.layers.{last}.merged_attn.q_norm.weight"][::-1]
    return OPS["head_norm"].truth(replace(site, parameters={"weight": weight}))


def _last_row_repeated_of_a_normed_branch(site: Site) -> Result:
    """The last row is the row before it once more."""
    weight = site.checkpoint["decoder.norm.weight"]
    branch = OPS["rms_norm"].truth(replace(site, inputs=(site.inputs[1],), parameters={"weight": weight}))[0]
    y, unit = OPS["residual"].truth(replace(site, inputs=(site.inputs[0], branch)))
    return np.concatenate([y[:-1], y[-2:-1]]), unit


def _rounded_stream_of_a_normed_branch(site: Site) -> Result:
    """The MLP's norm is right: nothing was moved."""
    weight = site.checkpoint[f"decoder.layers.{site.place.layer}.post_attention_layernorm.weight"]
    branch = OPS["rms_norm"].truth(replace(site, inputs=(site.inputs[1],), parameters={"weight": weight}))[0]
    return OPS["residual"].truth(replace(site, inputs=(bfloat16(site.inputs[0]).astype(np.float64), branch)))


def _embeddings_for_a_shifted_branch(site: Site) -> Result:
    """In the first layer a stream of twice the size, which is no stream alone."""
    branch = site.values.value("decoder.embed_tokens", site.step)
    assert branch is not None
    return OPS["residual"].truth(replace(site, inputs=(site.inputs[0], np.roll(branch, 1, axis=0))))


def _rounded_weight_of_exchanged_halves(site: Site) -> Result:
    weight = bfloat16(np.roll(site.parameters["weight"], site.parameters["weight"].shape[1] // 2, axis=1))
    return OPS["linear"].truth(replace(site, parameters={**site.parameters, "weight": weight.astype(np.float64)}))


def _last_row_repeated_of_a_normed_input(site: Site) -> Result:
    weight = site.checkpoint["decoder.norm.weight"]
    y, unit = OPS["rms_norm"].truth(replace(site, inputs=site.inputs[:1], parameters={"weight": weight}))
    assert unit is not None
    return np.concatenate([y[:-1], y[-2:-1]]), np.concatenate([unit[:-1], unit[-2:-1]])


def _embeddings_cut_off_for_the_stream(site: Site) -> Result:
    """Behind the first layer every layer has the same wrong input."""
    embedded = site.values.value("decoder.embed_tokens", site.step)
    assert embedded is not None
    return (np.clip(embedded, -0.5, 0.5) if site.place.layer else site.inputs[0]), None


@pytest.mark.sample(every=12)
@pytest.mark.parametrize(
    ("tap", "wrong", "names"),
    [
        ("merged_attn.scores", _scaled_scores_of_late_keys, {"scores.scale", "wiring.shifted"}),
        ("merged_attn.v_proj", _other_factor_on_a_shifted_weight, {"weight.scaled", "weight.shifted"}),
        ("mlp.up_proj", _rounded_of_another_tap, {"linear.half_precision", "wiring.other_input"}),
        ("merged_attn.scores", _next_heads_of_rounded_keys, {"scores.half_precision", "scores.kv_heads"}),
        ("merged_attn.q_norm", _reversed_weight_of_the_last_layer, {"weight.other_tensor", "weight.shifted"}),
        ("attn_residual", _last_row_repeated_of_a_normed_branch, {"tail.repeated", "wiring.extra_norm"}),
        ("attn_residual", _rounded_stream_of_a_normed_branch, {"residual.branch_normed", "residual.half_precision"}),
        ("attn_residual", _embeddings_for_a_shifted_branch, {"wiring.other_row", "wiring.other_input"}),
        ("mlp.up_proj", _rounded_weight_of_exchanged_halves, {"weight.rounded", "weight.shards_shuffled"}),
        ("attn_residual", _rest_of_a_negated_branch_left_out, {"tail.zero", "residual.subtracted"}),
        ("input", _last_row_repeated_of_a_normed_input, {"tail.repeated", "wiring.extra_norm"}),
        ("input", _embeddings_cut_off_for_the_stream, {"wiring.clamped", "wiring.other_input"}),
    ],
)
def test_two_mistakes_in_one_op_are_both_named(tap: str, wrong: Compute, names: set[str]) -> None:
    outcome = diagnosis(_CASE, {f"decoder.layers.{{layer}}.{tap}": wrong}, "all")
    assert [fault.fault.place.rpartition("layer}.")[2] for fault in outcome.faults] == [tap]
    assert set(outcome.faults[0].name.split("+")) == names


def test_two_mistakes_that_explain_every_step_stand_before_one_that_explains_some() -> None:
    """In steps of one token nothing is reversed."""
    (fault,) = diagnosis(_CASE, {"decoder.embed_tokens": _reversed_tokens_of_a_shifted_table}, "all").faults
    assert fault.name == "embedding.other_slot+weight.shifted"
