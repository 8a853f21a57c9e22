"""Probabilities that go by another mask than the recorded one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.mask import WHOLE, MaskChange
from qwen3_parity.mistakes.mask_memory import MEMORY
from qwen3_parity.mistakes.mask_near import NEAR
from qwen3_parity.mistakes.mask_padding import MISREAD, OWN
from qwen3_parity.mistakes.mask_parts import Rule, slots
from qwen3_parity.mistakes.ranks import PLAIN, Rank
from qwen3_parity.mistakes.softmax_forms import Shaped, soft, softmax_hypothesis
from qwen3_spec.site import Site


def other_mask(site: Site) -> Iterator[Hypothesis]:
    """Another mask than the recorded one: changed as a whole, or one of the wrong masks that are known."""

    def changed(change: MaskChange) -> Shaped:
        def shaped(s: Array, visible: Array, site: Site) -> tuple[Array, Array] | None:
            of = site.values.site(site.sibling("mask"), site.step)
            new_mask = None if of is None else change(visible[:, 0], of)
            if new_mask is None:
                return None
            every_head = np.broadcast_to(new_mask[:, None], s.shape)
            return soft(s, every_head), every_head

        return shaped

    if site.values.recorded(site.sibling("mask"), site.step) is None:
        return  # the mask itself may be wrong: it has the same mistakes
    fix = "apply the mask that was recorded"
    for name, says, change, rank in WHOLE:
        if name not in ("mask.none", "mask.keys_hidden"):
            name = "mask.other_row" if name == "mask.other_row" else "softmax.other_mask"
            yield softmax_hypothesis(
                name, f"uses another mask than the recorded one, which {says}", fix, changed(change), rank
            )

    def masked(wrong: Mapping[str, Rule]) -> Shaped:
        def shaped(s: Array, visible: Array, site: Site) -> tuple[Array, Array] | None:
            of = site.values.site(site.sibling("mask"), site.step)
            if of is None:
                return None
            parts = slots(of)
            near, padding, memory = ((wrong.get(part) or rules[0]).visible(parts) for part, rules in _PARTS.items())
            if near is None or padding is None:
                return None
            width = parts.real.shape[1]
            cells = np.broadcast_to(near & padding, (len(s), s.shape[2], width))
            if parts.memory is not None:
                if memory is None:
                    return None
                wide = np.broadcast_to(memory, (len(s), s.shape[2], parts.memory.shape[1]))
                cells = np.concatenate([cells, wide], axis=-1)
            if cells.shape != (s.shape[0], *s.shape[2:]):
                return None
            every_head = np.broadcast_to(cells[:, None], s.shape)
            return soft(s, every_head), every_head

        return shaped

    for wrong, says, rank in _wrong_parts(site):
        first = next(iter(wrong.values()))
        says = f"uses another mask than the recorded one, which {says}"
        yield softmax_hypothesis(first.name, says, fix, masked(wrong), rank)


_PARTS = {"near": NEAR, "own": OWN, "memory": MEMORY}
"""The rules of each part of a mask; the first is right."""


def _wrong_parts(site: Site) -> Iterator[tuple[Mapping[str, Rule], str, Rank]]:
    """One part of the mask wrong, with its words and rank; or the padding of both halves misread in the same way."""
    of = site.values.site(site.sibling("mask"), site.step)
    merged = of is not None and len(of.inputs) > 1  # the encoder's padding is its second input
    if merged:
        for index, (_, says, _, steps) in enumerate(MISREAD, start=1):
            yield {"own": OWN[index], "memory": MEMORY[index]}, f"{says}, the encoder's too", PLAIN + steps
    for part, rules in _PARTS.items():
        if merged or part != "memory":
            yield from (({part: rule}, rule.says, PLAIN + 1 + rule.steps) for rule in rules if rule.name)
