"""Probabilities that go by another mask than the recorded one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.mask import WHOLE, MaskChange
from qwen3_parity.mistakes.mask_memory import MEMORY
from qwen3_parity.mistakes.mask_near import NEAR
from qwen3_parity.mistakes.mask_padding import OWN
from qwen3_parity.mistakes.mask_parts import slots
from qwen3_parity.mistakes.softmax_forms import Shaped, soft, softmax_hypothesis
from qwen3_spec.site import Site


def other_mask(site: Site) -> Iterator[Hypothesis]:
    """Another mask than the recorded one: changed as a whole, or one of the wrong masks that are known."""

    def changed(change: MaskChange) -> Shaped:
        def shaped(s: Array, visible: Array, site: Site) -> tuple[Array, Array] | None:
            of = site.values.site(site.sibling("mask"), site.step)
            found = None if of is None else change(visible[:, 0], of)
            if found is None:
                return None
            other = np.broadcast_to(found[:, None], s.shape)
            return soft(s, other), other

        return shaped

    recorded = site.values.recorded(site.sibling("mask"), site.step) is not None
    fix = "apply the mask that was recorded" if recorded else "apply the mask of the case: padding, causality, window"
    for name, says, change, rank in WHOLE:
        if name not in ("mask.none", "mask.keys_hidden"):
            name = "mask.other_row" if name == "mask.other_row" else "softmax.other_mask"
            yield softmax_hypothesis(
                name, f"uses another mask than the recorded one, which {says}", fix, changed(change), rank
            )

    def masked(part: str, which: int) -> Shaped:
        def shaped(s: Array, visible: Array, site: Site) -> tuple[Array, Array] | None:
            of = site.values.site(site.sibling("mask"), site.step)
            if of is None:
                return None
            parts = slots(of)
            rules = {"near": NEAR, "own": OWN, "memory": MEMORY}
            chosen = {one: table[which if one == part else 0] for one, table in rules.items()}
            near, own = chosen["near"].visible(parts), chosen["own"].visible(parts)
            if near is None or own is None:
                return None
            width = parts.real.shape[1]
            cells = np.broadcast_to(near & own, (len(s), s.shape[2], width))
            if parts.memory is not None:
                theirs = chosen["memory"].visible(parts)
                if theirs is None:
                    return None
                wide = np.broadcast_to(theirs, (len(s), s.shape[2], parts.memory.shape[1]))
                cells = np.concatenate([cells, wide], axis=-1)
            if cells.shape != (s.shape[0], *s.shape[2:]):
                return None
            other = np.broadcast_to(cells[:, None], s.shape)
            return soft(s, other), other

        return shaped

    for part, table in (("near", NEAR), ("own", OWN), ("memory", MEMORY)):
        if part == "memory" and site.stack == "encoder":
            continue
        for which, rule in enumerate(table):
            if rule.name:
                says = f"uses another mask than the recorded one, which {rule.says}"
                yield softmax_hypothesis(rule.name, says, fix, masked(part, which), 1 + rule.rank)
