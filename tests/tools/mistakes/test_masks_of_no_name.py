"""A mask that is wrong in an unheard-of way is not explained by a tap that is wrong in the same way."""

from __future__ import annotations

import numpy as np
import pytest
from seeded import Compute, changed, fault

from qwen3_golden import Array
from qwen3_parity.mistakes.mask import _FIX, WHOLE
from qwen3_parity.mistakes.mask_memory import MEMORY
from qwen3_parity.mistakes.mask_near import NEAR
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

MASK = "decoder.layers.{layer}.merged_attn.mask"
WINDOW = "decoder/window_chunks"


def slots(m: Array, site: Site) -> tuple[Array, Array]:
    """Slots of queries `[query, 1]` and of the keys, which are all the decoder's own."""
    return site.stop - site.length + np.arange(m.shape[1])[:, None], np.arange(m.shape[2])


def every_fourth(m: Array, site: Site) -> Array:
    query, key = slots(m, site)
    return m | ((key - query) % 4 == 0)


def sink(m: Array, site: Site) -> Array:
    real = site.inputs[0].astype(bool)[:, None, : m.shape[2]]
    return m | (real & (slots(m, site)[1] == 0))


def past_of_chunks(m: Array, site: Site) -> Array:
    _, key = slots(m, site)
    hidden = (key < site.stop - site.length) & (key % 2 == 1)
    return m & ~hidden if site.length > 1 else m


def hole(m: Array, site: Site) -> Array:
    """Two slots are never seen: each step's row is the one before and a new key."""
    return m & ~np.isin(slots(m, site)[1], (1, 3))


UNHEARD: dict[str, tuple[str, Compute]] = {
    "every fourth key is seen": ("decoder/plain", changed(every_fourth)),
    "slot 0 stays visible outside of the window": (WINDOW, changed(sink)),
    "every other slot of the past is hidden from a later chunk": (WINDOW, changed(past_of_chunks)),
    "two slots are never seen": ("decoder/plain", changed(hole)),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", UNHEARD)
def test_an_unheard_of_mask_is_explained_by_no_mask_that_is_wrong_like_it(kind: str) -> None:
    case, wrong = UNHEARD[kind]
    explained = fault(case, {MASK: wrong})
    assert not {explanation.name for explanation in explained.explanations} & {
        "mask.other_layer",
        "wiring.previous_step",
    }
    assert explained.findings[0].name == "mask.bands"


def test_every_fix_is_of_a_mask_that_has_a_name() -> None:
    names = {name for name, *_ in WHOLE} | {rule.name for rule in (*NEAR, *MEMORY)}
    assert not [prefix for prefix in _FIX if not any(name.startswith(prefix) for name in names)]


def first_layers(m: Array, site: Site) -> Array:
    of = site.values.site(MASK.format(layer=0), site.step)
    assert of is not None
    return OPS["mask"].truth(of)[0]


def test_a_mask_that_is_the_first_layers_is_named() -> None:
    assert "mask.other_layer" in [
        explanation.name for explanation in fault(WINDOW, {MASK: changed(first_layers)}).explanations
    ]
