"""Which cells of a tap are judged in a case of mode GRAPH: those of real tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from qwen3_golden import Array, Recording, Tensor
from qwen3_spec.cells import Positions, judged

_DECODER = "input.decoder_"


def counted(item: Tensor, golden: Recording, rerouted: Mapping[int, Array] | None = None) -> Array:
    """The cells of a golden's tap that count, bool of its shape: those of real tokens.

    `rerouted` are tokens by step, `[batch, query]`, that do not count either.
    """
    stacks = [stack for stack in (_steps(item.info.step, golden), _encoder(golden)) if stack is not None]
    if "encoder" in item.info.name and "decoder" not in item.info.name:
        stacks.reverse()
    axes = tuple(item.info.axes) or ("",) * item.array.ndim
    counts = judged(item.array.shape, axes, stacks)
    left_out = (rerouted or {}).get(item.info.step)
    if left_out is not None and left_out.any():
        counts &= judged(item.array.shape, axes, [Positions(~left_out)])
    return np.asarray(counts)


def _steps(step: int, golden: Recording) -> Positions | None:
    """The positions of the stack that is run in steps: the decoder's where there are two."""
    merged = any(name.startswith(_DECODER) for name in _inputs(golden))
    real = _mask(golden, "input.decoder_attention_mask" if merged else "input.attention_mask")
    steps = golden.case.steps
    stop = sum(steps[: step + 1])
    if real is None and merged:
        ids = next((item for item in golden if item.info.name.startswith(_DECODER)), None)
        real = None if ids is None else np.ones((ids.array.shape[0], sum(steps)), bool)
    return None if real is None else Positions(real[:, :stop], stop - steps[step] if step < len(steps) else 0)


def _encoder(golden: Recording) -> Positions | None:
    real = _mask(golden, "input.attention_mask")
    return None if real is None else Positions(real)


def _mask(golden: Recording, name: str) -> Array | None:
    mask = golden.get(name)
    return None if mask is None or mask.array.ndim != 2 else mask.array.astype(bool)


def _inputs(golden: Recording) -> Iterator[str]:
    return (item.info.name for item in golden if item.info.name.startswith("input."))
