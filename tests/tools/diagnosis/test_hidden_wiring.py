"""Streams, norms and caches wired wrongly where no tap stands: the place and the mistake are named all the same.

It runs `diagnosis.pairs`, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from detection.derived.seed import Compute
from detection.levels.thinned import diagnosis, recorded
from qwen3_golden import GOLDEN_ROOT, Array
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.diagnose import diagnose
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site


def exact(y: Array) -> Result:
    return y, np.zeros_like(y, np.float64)


def truth(site: Site) -> Array:
    return OPS[site.place.op].truth(site)[0]


def reading(name: str, slot: int = 0) -> Compute:
    """The right op on another tap; `{layer}`, `{before}` are the site's layer and two layers before."""

    def compute(site: Site) -> Result | None:
        layer = site.place.layer or 0
        if "{before}" in name and layer < 2:
            return None
        elsewhere = site.values.value(name.format(layer=layer, before=layer - 2), site.step)
        if elsewhere is None or elsewhere.shape != site.inputs[slot].shape:
            return None
        return exact(truth(replace(site, inputs=(*site.inputs[:slot], elsewhere, *site.inputs[slot + 1 :]))))

    return compute


def left_out(site: Site) -> Result:
    return exact(site.inputs[0])


def unrotated(site: Site) -> Result:
    return exact(heads_first(site.inputs[0], site.config.head_dim))


def turned_by_sin_alone(site: Site) -> Result:
    x, _, sin = site.inputs
    return exact(truth(replace(site, inputs=(x, sin, sin))))


def unscaled(site: Site) -> Result:
    return exact(truth(site) / site.scaling)


def own_mask_added(site: Site) -> Result:
    """The mask over the stack's own keys is added as 1 and 0, the encoder's half hides."""
    scores, mask = site.inputs
    scores, visible = scores.copy(), np.broadcast_to(mask[:, None], scores.shape).copy()
    scores[..., : site.stop] += visible[..., : site.stop]
    visible[..., : site.stop] = True
    weight = np.where(visible, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    return exact(weight / weight.sum(-1, keepdims=True))


def padding_late(site: Site) -> Result:
    """The decoder's padding one slot late, with padding moved in."""
    padding = np.roll(site.inputs[0], 1, 1)
    padding[:, 0] = 0
    return exact(truth(replace(site, inputs=(padding, *site.inputs[1:]))))


def norm(x: Array, weight: Array, eps: float) -> Array:
    return np.asarray(x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * weight)


def branch_normed(site: Site) -> Result:
    weight = site.checkpoint[f"decoder.layers.{site.place.layer}.post_attention_layernorm.weight"]
    return exact(site.inputs[0] + norm(site.inputs[1], weight, site.config.rms_norm_eps))


def scaled_behind(site: Site) -> Result | None:
    return exact(site.inputs[0] * site.inputs[0].shape[-1] ** 0.5) if site.place.layer == 0 else None


def turned_by(site: Site, positions: Array) -> Result | None:
    frequencies = site.values.value("decoder.inv_freq", 0)
    if frequencies is None:
        return None
    angle = np.tile(np.broadcast_to(positions, (len(site.inputs[0]), site.length))[..., None] * frequencies, 2)
    return exact(truth(replace(site, inputs=(site.inputs[0], np.cos(angle), np.sin(angle)))))


def chunk_from_0(site: Site) -> Result | None:
    """A chunk behind a cached prefix counts from 0; decode steps do not."""
    return turned_by(site, np.arange(site.length)) if site.step and site.length > 1 else None


def retained(site: Site) -> Result | None:
    """What fell out of the window is not counted."""
    ids = site.values.value("decoder.position_ids", site.step)
    gone = max(site.stop - site.length - (site.window or 0), 0)
    return None if ids is None or not site.window or not gone else turned_by(site, ids - gone)


def skipping(site: Site) -> Result | None:
    embeddings = site.values.value("decoder.embed_tokens", site.step)
    last = site.place.layer == site.config.num_hidden_layers - 1
    return exact(site.inputs[0] + embeddings) if last and embeddings is not None else None


def mean_of_layers(site: Site) -> Result:
    layers = [site.values.value(f"decoder.layers.{n}.output", site.step) for n in range(site.config.num_hidden_layers)]
    mean = np.mean([layer for layer in layers if layer is not None], axis=0)
    return exact(truth(replace(site, inputs=(mean,))))


def memory_between(site: Site) -> Result | None:
    past = site.stop - site.length
    if len(site.inputs) < 3:
        return None
    keys = site.inputs[1]
    parts = (keys[:, :, :past], site.inputs[2], keys[:, :, past:])
    return exact(truth(replace(site, inputs=(site.inputs[0], np.concatenate(parts, 2), keys[:, :, :0]))))


def wrapped(site: Site) -> Result:
    """A ring of 3 slots in which the prompt overwrites itself."""
    y = truth(site)
    last = y.shape[2] - 1
    return exact(y if site.step else y[:, :, [slot + (last - slot) // 3 * 3 for slot in range(last + 1)]])


def own_hidden_late(site: Site) -> Result | None:
    if not site.step:
        return None
    y = truth(site).copy()
    for query in range(y.shape[1]):
        y[:, query, site.stop - site.length + query] = False
    return exact(y)


def normed_again(site: Site) -> Result:
    """Each step norms the keys that it finds."""
    y = np.asarray(truth(site), np.float64)
    old = 0 if site.before is None else site.before.shape[2]
    weight = site.checkpoint[f"decoder.layers.{site.place.layer}.merged_attn.k_norm.weight"]
    return exact(np.concatenate((norm(y[:, :, :old], weight, site.config.rms_norm_eps), y[:, :, old:]), 2))


def late(site: Site) -> Result:
    return exact(truth(replace(site, inputs=(np.roll(site.inputs[0], 1, 1),))))


BUGS: Mapping[str, tuple[str, str, Mapping[str, Compute], str]] = {
    "head_reads_a_branch": ("decoder/plain", "logits", {"logits": reading("decoder.layers.0.post_attention_layernorm")},
                            "wiring.other_input"),
    "parallel_block": ("decoder/plain", "layer", {"*.mlp.gate_proj": reading("decoder.layers.{layer}.input_layernorm"),
                       "*.mlp.up_proj": reading("decoder.layers.{layer}.input_layernorm")}, "wiring.other_input"),
    "layer_before": ("decoder/plain", "layer",
                     {"decoder.layers.{layer}.input": reading("decoder.layers.{before}.output")}, "wiring.other_layer"),
    "norm_behind_attention": ("decoder/plain", "layer", {"*.attn_residual": branch_normed,
                              "*.post_attention_layernorm": left_out}, "norm.placement"),
    "no_norm_of_a_growing_stream": ("encdec/ragged", "layer", {"decoder.*.post_attention_layernorm": left_out},
                                    "norm.no_norm"),
    "scaled_behind_the_embeddings": ("decoder/plain", "layer", {"decoder.layers.{layer}.input": scaled_behind},
                                     "embedding.scaled"),
    "long_skip": ("decoder/plain", "layer", {"decoder.layers.{layer}.input": skipping}, "wiring.added_input"),
    "mean_of_layers": ("decoder/plain", "all", {"decoder.norm": mean_of_layers}, "wiring.added_input"),
    "memory_unnormed": ("encdec/ragged", "sub-layer", {"*.encoder_[kv]_proj": reading("encoder.layers.2.output")},
                        "wiring.other_input"),
    "memory_late": ("encdec/ragged", "sub-layer", {"*.encoder_k_proj": late}, "wiring.shifted"),
    "keys_normed_again": ("decoder/plain", "sub-layer", {"*.cache_keys": normed_again}, "cache.renormed"),
    "prompt_overwritten": ("decoder/plain", "layer", {"*.cache_keys": wrapped, "*.cache_values": wrapped},
                           "cache.ring"),
    "probabilities_left_out": ("encdec/ragged", "fused", {"*.probs": left_out}, "wiring.skipped"),
    "scale_left_out": ("encdec/ragged", "fused", {"*.scores": unscaled}, "scores.scale"),
    "encoder_keys_unrotated": ("encdec/ragged", "fused", {"*.encoder_k_rope": unrotated}, "rope.not_applied"),
    "sin_for_cos": ("encdec/ragged", "fused", {"*_rope": turned_by_sin_alone}, "wiring.other_input"),
    "own_mask_added": ("encdec/ragged", "fused", {"decoder.*.probs": own_mask_added}, "softmax.boolean_added"),
    "padding_late": ("encdec/ragged", "fused", {"decoder.*.mask": padding_late}, "mask.padding_shifted"),
    "a_chunk_from_0": ("decoder/window_chunks", "modules", {"*_rope": chunk_from_0}, "rope.other_position"),
    "retained_past": ("decoder/window_chunks", "sub-layer", {"*_rope": retained}, "rope.other_position"),
    "hidden_from_itself_in_decode_steps": ("decoder/ragged_decode", "logits", {"*.mask": own_hidden_late},
                                           "mask.off_by_one"),
}  # fmt: skip
"""Case, level, the wrong ops, and their name."""


@pytest.mark.sample(every=20)
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=[pytest.mark.slow] * (level == "logits")) for bug, (_, level, *_) in BUGS.items()]
)
def test_wrong_wiring_is_named_where_no_tap_stands(bug: str) -> None:
    case, level, wrong, name = BUGS[bug]
    faults = diagnosis(case, wrong, level).faults
    assert faults and {fault.name for fault in faults} == {name}


def test_queries_without_a_key_accuse_nobody() -> None:
    golden, candidate = recorded("decoder/plain", {}, "sub-layer")

    def blind(site: Site) -> Result:
        y = truth(site).copy()
        y[:, -1] = False
        return exact(y)

    def uniform(site: Site) -> Result:
        y = truth(site).copy()
        y[:, :, -1] = 1 / y.shape[-1]
        return exact(y)

    golden, candidate = recorded("decoder/plain", {"*.mask": blind, "*.probs": uniform}, "sub-layer")
    outcome = diagnose(golden, candidate, weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    assert [fault.fault.place for fault in outcome.faults] == ["decoder.layers.{layer}.merged_attn.mask"]


@pytest.mark.slow
def test_two_tables_that_are_wrong_alike_are_no_copies_of_each_other() -> None:
    def random_table(site: Site) -> Result:
        return exact(np.random.default_rng(0).random(truth(site).shape))

    faults = diagnosis("encdec/ragged", {"*.inv_freq": random_table}, "modules").faults
    assert faults and not [fault.name for fault in faults if fault.name == "wiring.copies"]


@pytest.mark.slow
def test_what_is_wrong_with_a_past_alone_says_so() -> None:
    def of_others(site: Site) -> Result:
        y = truth(site).copy()
        if site.step:
            y[:, :, :1] = np.random.default_rng(0).standard_normal(y[:, :, :1].shape)
        return exact(y)

    (fault,) = diagnosis("decoder/ragged_decode", {"*.cache_keys": of_others}, "fused").faults
    assert "fit.past" in {finding.name for finding in fault.findings}


def test_probabilities_by_another_mask_than_the_recorded_one_are_named() -> None:
    def shifted(site: Site) -> Result:
        return exact(truth(replace(site, inputs=(site.inputs[0], np.roll(site.inputs[1], 1, 2)))))

    (fault,) = diagnosis("decoder/ragged_decode", {"*.probs": shifted}, "all").faults
    assert "softmax.other_mask" in {explanation.name for explanation in fault.explanations}
