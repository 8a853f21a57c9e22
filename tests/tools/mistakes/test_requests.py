"""What a second request brings is looked for in the golden of the first, before the same request is blamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from seeded import Compute, changed, diagnosed, fault
from wrong_numbers import golden

from qwen3_golden import Array
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

CASE = "encdec/second_request"
ATTENTION = "decoder.layers.{layer}.merged_attn"
MASKS = ("encoder.layers.{layer}.self_attn.mask", f"{ATTENTION}.mask")


def first(name: str, step: int = 0) -> Array:
    """A tap of the request before."""
    return golden(golden(CASE).case.after)[name, step].values()


def not_reset(positions: Array, site: Site) -> Array:
    return positions + first("input.decoder_attention_mask").shape[1]


def padding_of_first(site: Site) -> Result:
    names = (name if "encoder" in name else "" for name in site.names)
    inputs = (first(name) if name else values for name, values in zip(names, site.inputs, strict=True))
    return OPS["mask"].truth(replace(site, inputs=tuple(inputs)))


def prefix_of_first(y: Array, site: Site) -> Array:
    if site.step == 0:
        y[:, :, :4] = first(site.place.name)[:, :, :4]
    return y


def cache_of_first(y: Array, site: Site) -> Array:
    y[:, :, :2] = first(site.place.name, 4)[:, :, :2]
    return y


LEFT: dict[str, tuple[Mapping[str, Compute], str]] = {
    "the counter is not reset": ({"decoder.position_ids": changed(not_reset)}, "positions.earlier_request"),
    "the encoder's mask is kept": (dict.fromkeys(MASKS, padding_of_first), "mask.earlier_request"),
    "a prefix is reused": ({f"{ATTENTION}.k_rope": changed(prefix_of_first)}, "from.earlier_request"),
    "the cache is not cleared": ({f"{ATTENTION}.cache_keys": changed(cache_of_first)}, "cache.stale"),
}


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("kind", LEFT)
def test_what_the_first_request_left_is_named_so(kind: str) -> None:
    wrong, name = LEFT[kind]
    diagnosis = diagnosed(CASE, wrong)
    assert {explained.name for explained in diagnosis.faults} == {name}
    assert golden(CASE).case.after in diagnosis.meaning[0]


@pytest.mark.slow
def test_a_prefix_is_told_by_its_positions() -> None:
    says = fault(CASE, {f"{ATTENTION}.k_rope": changed(prefix_of_first)}).findings[0].says
    assert "batch row 0, positions 0–2 hold the request before's k_rope (step 0), at the same place" in says


def test_nobody_is_blamed_for_a_request_that_did_not_run() -> None:
    def unheard(y: Array, site: Site) -> Array:
        y[:, :, 1:3] = np.cos(9 * y[:, :, 1:3])
        return y

    explained = fault("encdec/window", {f"{ATTENTION}.cache_keys": changed(unheard)})
    assert explained.findings[0].name == "cache.unknown" and "earlier" not in explained.findings[0].says


def test_a_first_request_of_another_length_is_told_from_the_encoder() -> None:
    case, recording = "encdec/shorter_request", golden("encdec/shorter_request")
    slots = golden(recording.case.after)["input.decoder_attention_mask", 0].array.shape[1]
    assert slots not in (recording["input.encoder_attention_mask", 0].array.shape[1], sum(recording.case.steps))
    explained = fault(case, {"decoder.position_ids": changed(lambda ids, _: ids + slots)})
    best = [explanation for explanation in explained.explanations if explanation.as_good_as(explained.explanations[0])]
    assert best[0].says == "goes on behind the slots of the request before"
    assert not any("encoder" in explanation.says for explanation in best)
