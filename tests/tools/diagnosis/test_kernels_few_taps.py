"""Mistakes of kernels among places without a tap: they are tried though nothing recorded says which they may be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from detection.derived.seed import Compute
from detection.levels.thinned import diagnosis
from qwen3_parity.mistakes.rounding import EIGHT_BITS, bfloat16, float16
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_CASE = "decoder/ragged_decode"


def _rest_never_written(site: Site) -> Result:
    y, unit = OPS[site.place.op].truth(site)
    y = y.copy()
    y[..., y.shape[-1] - y.shape[-1] % 16 :] = 0
    return y, unit


def _filled_up_to_64(site: Site) -> Result:
    factor = np.sqrt(64 / site.inputs[0].shape[-1])
    eps = site.config.rms_norm_eps * factor**2
    y, unit = OPS["rms_norm"].truth(replace(site, config=replace(site.config, rms_norm_eps=eps)))
    return factor * y, unit


def _added_up_in_bfloat16(site: Site) -> Result:
    q, k = site.inputs[0], np.concatenate(site.inputs[1:], axis=2)
    keys, total = np.repeat(k, q.shape[1] // k.shape[1], axis=1), np.zeros(())
    for channel in range(q.shape[-1]):
        total = bfloat16(total + bfloat16(q[..., channel, None] * keys[..., None, :, channel])).astype(np.float64)
    return total * site.scaling, OPS["scores"].truth(site)[1]


def _product_added_up_in_bfloat16(site: Site) -> Result:
    x, weight, total = site.inputs[0], np.asarray(site.parameters["weight"], np.float64), np.zeros(())
    for channel in range(x.shape[-1]):
        total = bfloat16(total + bfloat16(x[..., channel, None] * weight[:, channel])).astype(np.float64)
    return total, OPS["linear"].truth(site)[1]


def _narrow_queries_and_keys(site: Site) -> Result:
    return OPS["scores"].truth(replace(site, inputs=tuple(float16(values) for values in site.inputs)))


def _narrow_probabilities(site: Site) -> Result:
    return OPS["context"].truth(replace(site, inputs=(bfloat16(site.inputs[0]), *site.inputs[1:])))


def _exp2_with_a_short_constant(site: Site) -> Result:
    scores, mask = site.inputs
    return OPS["softmax"].truth(replace(site, inputs=(scores * 1.44 * np.log(2), mask)))


def _stored_in_eight_bits(site: Site) -> Result:
    return dict(EIGHT_BITS)["float8 (e5m2)"](OPS[site.place.op].truth(site)[0]), None


def _by_exchanged_tables(site: Site) -> Result:
    x, cos, sin = site.inputs
    return OPS["rope"].truth(replace(site, inputs=(x, sin, cos)))


@pytest.mark.sample(every=7)
@pytest.mark.parametrize(
    ("tap", "wrong", "level", "name"),
    [
        ("attn_residual", _rest_never_written, "layer", "tail.zero"),
        ("post_attention_layernorm", _filled_up_to_64, "layer", "norm.width"),
        ("merged_attn.scores", _added_up_in_bfloat16, "fused", "sum.half_precision"),
        ("mlp.up_proj", _product_added_up_in_bfloat16, "layer", "sum.half_precision"),
        ("merged_attn.scores", _narrow_queries_and_keys, "fused", "scores.half_precision"),
        ("merged_attn.context", _narrow_probabilities, "fused", "context.half_precision"),
        ("merged_attn.probs", _exp2_with_a_short_constant, "fused", "softmax.temperature"),
    ],
)
def test_a_mistake_of_a_kernel_is_named_without_its_tap(tap: str, wrong: Compute, level: str, name: str) -> None:
    outcome = diagnosis(_CASE, {f"decoder.layers.{{layer}}.{tap}": wrong}, level)
    assert [fault.name for fault in outcome.faults] == [name]
    assert tap in outcome.faults[0].explanations[0].place


def test_keys_of_both_halves_are_cached_in_one_narrow_type() -> None:
    wrong = dict.fromkeys(("decoder.*.cache_keys", "decoder.*.cache_encoder_keys"), _stored_in_eight_bits)
    outcome = diagnosis("encdec/ragged", wrong, "fused")
    assert [fault.name for fault in outcome.faults] == ["cache.half_precision"]


def test_of_rotations_with_equal_scores_the_plainer_come_first() -> None:
    outcome = diagnosis(_CASE, dict.fromkeys(("decoder.*.q_rope", "decoder.*.k_rope"), _by_exchanged_tables), "fused")
    names = [explanation.name for explanation in outcome.faults[0].explanations]
    assert names == ["rope.negative_angle", "rope.swapped_cos_sin"]
