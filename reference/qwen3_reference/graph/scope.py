"""Which cells of a tap are judged in a case of mode GRAPH."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qwen3_golden import Array, Recording, Tensor
from qwen3_spec.cells import Positions, judged

_MASKS = ("decoder_attention_mask", "attention_mask")
"""Inputs that say which positions are tokens, that of the steps first."""


def counted(item: Tensor, golden: Recording, rerouted: Mapping[int, Array] | None = None) -> Array:
    """The cells of a golden's tap that count, bool of its shape: those of real tokens.

    `rerouted` are tokens by step, `[batch, query]`, that do not count either.
    """
    masks = {name: tensor.array.astype(bool) for name in _MASKS if (tensor := golden.get(f"input.{name}")) is not None}
    stacks, steps = list[Positions](), golden.case.steps
    for name in _MASKS:
        mask = masks.get(name)
        if mask is None or mask.ndim != 2:
            continue
        if name == _MASKS[0] or _MASKS[0] not in masks:
            stop = sum(steps[: item.info.step + 1])
            start = stop - steps[item.info.step] if item.info.step < len(steps) else 0
            stacks.append(Positions(mask[:, :stop] if stop else mask, start))
        else:
            stacks.append(Positions(mask))
    if "encoder" in item.info.name and "decoder" not in item.info.name:
        stacks.reverse()
    axes = tuple(item.info.axes) or ("",) * item.array.ndim
    counts = judged(item.array.shape, axes, stacks)
    left_out = (rerouted or {}).get(item.info.step)
    if left_out is not None and left_out.any():
        counts &= judged(item.array.shape, axes, [Positions(~left_out)])
    return np.asarray(counts)
