"""Caches that are filled rightly and read wrongly: what a decode step finds in the slots of the steps before."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Compute, Hypothesis
from qwen3_parity.mistakes.rounding import ROUNDED
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_Older = Callable[[Array], "Array | None"]
"""What is found where `[batch, kv_heads, past, head_dim]` was written; None where it cannot be told apart."""
_FIX = "a step reads every older slot as it was written"
_SLOTS = 16
"""So many slots are thought of one by one."""


def _rows(order: Callable[[int], Array]) -> _Older:
    return lambda old: old[order(len(old))] if len(old) > 1 else None


def _one_row_late(row: int) -> _Older:
    def late(old: Array) -> Array | None:
        if not 0 <= row < len(old) or len(old) < 2:
            return None
        found = old.copy()
        found[row] = np.roll(old[row], 1, 1)
        return found

    return late


def _emptied(slots: slice) -> _Older:
    def emptied(old: Array) -> Array | None:
        found = old.copy()
        found[:, :, slots] = 0
        return found if found.shape[2] and not np.array_equal(found, old) else None

    return emptied


def eight_bits(values: Array) -> Array:
    """The nearest of 255 steps of each head's slot, symmetric."""
    scale = np.abs(values).max(-1, keepdims=True) / 127
    return np.asarray(np.round(values / np.where(scale == 0, 1, scale)) * scale)


_READ: tuple[tuple[str, str, _Older, int], ...] = (
    ("not_written", "finds older slots empty", lambda old: np.zeros_like(old), 0),
    ("shifted", "finds older slots late by one", lambda old: np.roll(old, 1, 2), 0),
    ("shifted", "finds older slots early by one", lambda old: np.roll(old, -1, 2), 0),
    ("shifted", "finds older slots late by one, the first empty",
     lambda old: np.concatenate((np.zeros_like(old[:, :, :1]), old[:, :, :-1]), 2), 0),
    ("shifted", "finds older slots early by one, the last empty",
     lambda old: np.concatenate((old[:, :, 1:], np.zeros_like(old[:, :, :1])), 2), 0),
    ("slot_order", "finds older slots newest first", lambda old: old[:, :, ::-1], 1),
    ("other_row", "finds older slots of the batch row before", _rows(lambda n: np.arange(n) - 1), 0),
    ("other_row", "finds older slots of the batch row behind", _rows(lambda n: (np.arange(n) + 1) % n), 0),
    ("other_row", "finds the first batch row's older slots", _rows(lambda n: np.zeros(n, int)), 1),
    ("kv_heads", "finds KV head 0's older slots in every head", lambda old: np.repeat(old[:, :1], old.shape[1], 1), 1),
    ("kv_heads", "finds older slots with their heads in reverse order", lambda old: old[:, ::-1], 1),
    ("quantised", "finds older slots rounded to 8 bits", eight_bits, 1),
    *(("half_precision", f"finds older slots rounded to {kind}", rounded, 1) for kind, rounded in ROUNDED),
    *(("not_written", f"finds slot {slot} empty", _emptied(slice(slot, slot + 1)), 2) for slot in range(_SLOTS)),
    *(("not_written", f"finds the last {kept} of the older slots alone", _emptied(slice(None, -kept)), 2)
      for kept in range(1, _SLOTS)),
    *(("shifted", f"finds the older slots of batch row {row} late by one", _one_row_late(row), 2) for row in range(4)),
)  # fmt: skip
"""The ends of names, what is wrong, what is found."""


def reads(site: Site) -> Iterator[Hypothesis]:
    """What else a step may find in the slots that earlier steps filled."""
    if site.step == 0 or site.values.recorded("input.beam_idx", 0) is not None:
        return
    own = site.place.inputs[0][0].rpartition(".")[2]
    for name, says, older, rank in _READ:
        yield Hypothesis(f"cache.{name}", says, _FIX, _found(own, older), rank)
    prompt = site.case.steps[0] if site.place.op == "cache" else 0
    if prompt:
        says = "finds the prompt and the step's own slots alone"
        yield Hypothesis("cache.not_written", says, _FIX, _found(own, _emptied(slice(prompt, None))), 1)
    other = _OTHER.get(own)
    if other is not None:
        cause = "older slots of both caches exchanged"
        says = f"finds {other} in the slots of {own}"
        name = "cache.keys_values_exchanged"
        yield Hypothesis(name, says, _FIX, _found(other, lambda old: old), 1, cause=cause)
    for offset in (-1, 1):
        says = f"finds the older slots of the layer {'before' if offset < 0 else 'behind'}"
        yield Hypothesis("cache.other_layer", says, _FIX, _found(own, lambda old: old, offset), 1)


_OTHER = {
    "k_rope": "v_proj",
    "v_proj": "k_rope",
    "encoder_k_rope": "encoder_v_proj",
    "encoder_v_proj": "encoder_k_rope",
}
"""What the other cache of a pair holds."""


def _found(tap: str, older: _Older, offset: int = 0) -> Compute:
    """The step's slots behind what is found of those that `tap` filled in the steps before, `offset` layers on."""

    def compute(site: Site) -> Result | None:
        layer = (site.place.layer or 0) + offset
        truth = OPS[site.place.op].truth(site)
        if site.step == 0 or not 0 <= layer < site.config.num_hidden_layers:
            return truth
        written = range(site.step) if site.place.op == "cache" else range(1)
        name = f"{site.place.stack}.layers.{layer}.merged_attn.{tap}"
        parts = [site.values.value(name, step) for step in written]
        if any(part is None for part in parts):
            return None
        form = [
            part if tap.endswith("_rope") else heads_first(part, site.config.head_dim)
            for part in parts
            if part is not None
        ]
        found = older(np.concatenate(form, 2))
        past = 0 if found is None else found.shape[2]
        if found is None or found.shape[:2] != truth[0].shape[:2] or past > truth[0].shape[2]:
            return None
        return np.concatenate((found, truth[0][:, :, past:]), 2), truth[1]

    return compute
