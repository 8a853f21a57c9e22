"""Scores recorded behind the mask: minus infinity, or the lowest number there is, where a key is hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pattern_of, pb, place, to_bfloat16
from qwen3_parity.judge.conventions.names import listed
from qwen3_parity.judge.scope import Scope

_LOWEST: Mapping[int, float] = {
    pb.F64: float(np.finfo(np.float64).min),
    pb.F32: float(np.finfo(np.float32).min),
    pb.BF16: float(np.finfo(np.float32).min),
    pb.F16: float(np.finfo(np.float16).min),
}


def masked_scores(
    actual: Recording, expected: Recording, _weights: Mapping[str, Array] | None
) -> tuple[Recording, list[str]]:
    """Scores that stand behind the mask at hidden keys, where nobody judges them: the golden's there.

    Minus infinity at a visible key stays what it is.
    """
    scope = Scope(expected)
    tensors, patterns = list[Tensor](), dict[str, None]()
    for item in actual:
        tap_place, golden_tap = place(item.info.name, expected.case.config.num_hidden_layers), expected.get(*item.key)
        if tap_place is not None and tap_place.op == "scores" and golden_tap is not None and item.info.dtype in _LOWEST:
            values = item.values()
            masked = values <= _LOWEST[item.info.dtype] / 2
            judged = (
                scope.judged(golden_tap, tap_place) if masked.any() and values.shape == golden_tap.array.shape else None
            )
            if judged is not None and (hidden := masked & ~np.broadcast_to(judged, values.shape)).any():
                item = _unmasked(item, golden_tap, hidden)
                patterns[pattern_of(item.info.name)] = None
        tensors.append(item)
    if not patterns:
        return actual, []
    note = f"convention recognised: {listed(list(patterns))} recorded behind the mask; judged at visible keys"
    return replace(actual, tensors=tensors), [note]


def _unmasked(item: Tensor, golden_tap: Tensor, hidden: Array) -> Tensor:
    values = np.where(hidden, golden_tap.values().astype(item.values().dtype), item.values())
    return Tensor(item.info, to_bfloat16(values) if item.info.dtype == pb.BF16 else values)
