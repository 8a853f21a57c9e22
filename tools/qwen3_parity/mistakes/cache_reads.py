"""Caches that are filled rightly and read wrongly: what a decode step finds in the slots of the steps before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Compute, Hypothesis
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.rounding import ROUNDED
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_Older = Callable[[Array], "Array | None"]
"""What is found where `[batch, kv_heads, past, head_dim]` was written; None where it cannot be told apart."""
_All = Callable[[Array, Array], "Array | None"]
"""What is found in all slots, of what was written before and what is new."""
_FIX = "a step reads every older slot as it was written"
_SLOTS = 16
"""So many slots are thought of one by one."""
_ROWS = 4
"""So many batch rows."""


def _rows(order: Callable[[int], Array]) -> _Older:
    return lambda old: old[order(len(old))] if len(old) > 1 else None


def _exchanged(a: int, b: int) -> _Older:
    def exchanged(old: Array) -> Array | None:
        if max(a, b) >= len(old):
            return None
        order = np.arange(len(old))
        order[[a, b]] = b, a
        return old[order]

    return exchanged


def _one_row_late(row: int) -> _Older:
    def late(old: Array) -> Array | None:
        if not 0 <= row < len(old) or len(old) < 2:
            return None
        changed = old.copy()
        changed[row] = np.roll(old[row], 1, 1)
        return changed

    return late


def _emptied(slots: slice) -> _Older:
    def emptied(old: Array) -> Array | None:
        changed = old.copy()
        changed[:, :, slots] = 0
        return changed if changed.shape[2] and not np.array_equal(changed, old) else None

    return emptied


def _eight_bits(values: Array) -> Array:
    """The nearest of 255 steps of each head's slot, symmetric."""
    scale = np.abs(values).max(-1, keepdims=True) / 127
    return np.asarray(np.round(values / np.where(scale == 0, 1, scale)) * scale)


_READ: tuple[tuple[str, str, _Older, Rank], ...] = (
    ("not_written", "finds older slots empty", lambda old: np.zeros_like(old), PLAIN),
    ("shifted", "finds older slots late by one", lambda old: np.roll(old, 1, 2), PLAIN),
    ("shifted", "finds older slots early by one", lambda old: np.roll(old, -1, 2), PLAIN),
    ("shifted", "finds older slots late by one, the first empty",
     lambda old: np.concatenate((np.zeros_like(old[:, :, :1]), old[:, :, :-1]), 2), PLAIN),
    ("shifted", "finds older slots early by one, the last empty",
     lambda old: np.concatenate((old[:, :, 1:], np.zeros_like(old[:, :, :1])), 2), PLAIN),
    ("slot_order", "finds older slots newest first", lambda old: old[:, :, ::-1], PLAIN + 1),
    ("other_row", "finds older slots of the batch row before", _rows(lambda n: np.arange(n) - 1), PLAIN),
    ("other_row", "finds older slots of the batch row behind", _rows(lambda n: (np.arange(n) + 1) % n), PLAIN),
    ("other_row", "finds the first batch row's older slots", _rows(lambda n: np.zeros(n, int)), PLAIN + 1),
    ("kv_heads", "finds KV head 0's older slots in every head",
     lambda old: np.repeat(old[:, :1], old.shape[1], 1), PLAIN + 1),
    ("kv_heads", "finds older slots with their heads in reverse order", lambda old: old[:, ::-1], PLAIN + 1),
    ("quantised", "finds older slots rounded to 8 bits", _eight_bits, PLAIN + 1),
    *(("half_precision", f"finds older slots rounded to {kind}", rounded, PLAIN + 1) for kind, rounded in ROUNDED),
    *(("not_written", f"finds slot {slot} empty", _emptied(slice(slot, slot + 1)), RARE) for slot in range(_SLOTS)),
    *(("not_written", f"finds the last {count} of the older slots alone", _emptied(slice(None, -count)), RARE)
      for count in range(1, _SLOTS)),
    *(("other_row", f"finds the older slots of batch rows {a} and {b} exchanged", _exchanged(a, b), RARE)
      for a, b in combinations(range(_ROWS), 2)),
    *(("shifted", f"finds the older slots of batch row {row} late by one", _one_row_late(row), RARE)
      for row in range(_ROWS)),
)  # fmt: skip
"""The ends of names, what is wrong, what is found in the older slots."""


def _ring(size: int) -> _All:
    """Of a ring of so many slots: what was overwritten is found in the place of what it overwrote."""

    def ring(old: Array, new: Array) -> Array | None:
        every, past = np.concatenate((old, new), 2), old.shape[2]
        last = every.shape[2] - 1
        if last < size:
            return None
        at = [slot + (last - slot) // size * size for slot in range(past)]
        return np.concatenate((every[:, :, at], new), 2)

    return ring


def _whole_ring(size: int) -> _All:
    """As `_ring`, of every slot: a prompt that is longer than the ring overwrites itself."""

    def ring(old: Array, new: Array) -> Array | None:
        every = np.concatenate((old, new), 2)
        last = every.shape[2] - 1
        if last < size:
            return None
        return every[:, :, [slot + (last - slot) // size * size for slot in range(last + 1)]]

    return ring


def _up_to(capacity: int) -> _All:
    def capped(old: Array, new: Array) -> Array | None:
        every = np.concatenate((old, new), 2)
        if every.shape[2] <= capacity:
            return None
        every[:, :, capacity:] = 0
        return every

    return capped


_READ_WITH_NEW: tuple[tuple[str, str, _All, Rank], ...] = (
    ("not_written", "does not find the step's own slots yet",
     lambda old, new: np.concatenate((old, np.zeros_like(new)), 2), PLAIN),
    ("truncated", "finds the step's own slots alone",
     lambda old, new: np.concatenate((np.zeros_like(old), new), 2), PLAIN + 1),
    *(("not_written", f"finds slots beyond a capacity of {slots} empty", _up_to(slots), RARE)
      for slots in range(1, _SLOTS)),
    *(("ring", f"wraps around after {slots} slots", _ring(slots), RARE) for slots in range(1, _SLOTS)),
)  # fmt: skip
"""The ends of names, what is wrong, what is found in all slots of older and new ones."""


def reads(site: Site) -> Iterator[Hypothesis]:
    """What else a step may find in the slots that earlier steps filled."""
    leaf = site.place.inputs[0][0].rpartition(".")[2]
    if site.step == 0:
        for slots in range(1, _SLOTS if site.place.op == "cache" else 0):
            says = f"wraps around after {slots} slots, in a longer prompt too"
            yield Hypothesis("cache.ring", says, _FIX, _read(leaf, _whole_ring(slots), prompt=True), RARE)
        return
    for name, says, older, rank in _READ:
        yield Hypothesis(f"cache.{name}", says, _FIX, _read(leaf, _older(older)), rank)
    for name, says, every, rank in _READ_WITH_NEW:
        yield Hypothesis(f"cache.{name}", says, _FIX, _read(leaf, every), rank)
    prompt = site.case.steps[0] if site.place.op == "cache" else 0
    if prompt:
        says = "finds the prompt and the step's own slots alone"
        yield Hypothesis("cache.not_written", says, _FIX, _read(leaf, _older(_emptied(slice(prompt, None)))), PLAIN + 1)
        for name, says, older, _ in _READ:
            if name == "other_row":
                says = says.replace("older slots", "slots of the prompt")
                yield Hypothesis(f"cache.{name}", says, _FIX, _read(leaf, _older(_of_first(older, prompt))), RARE)
        for row, which in ((0, "first"), (-1, "last")):
            says = f"finds the {which} batch row's slots where earlier decode steps of every row wrote"
            yield Hypothesis("cache.other_row", says, _FIX, _read(leaf, _older(_shared(row, prompt))), RARE)
    lengths = [int(length) for length in site.case.steps[: site.step]] if site.place.op == "cache" else []
    if max(lengths, default=1) > 1:
        says = "finds the last slot alone of each step of several tokens"
        yield Hypothesis("cache.not_written", says, _FIX, _read(leaf, _older(_last_of(lengths))), PLAIN + 1)
    other_leaf = _OTHER.get(leaf)
    if other_leaf is not None:
        cause = "older slots of both caches exchanged"
        says = f"finds {other_leaf} in the slots of {leaf}"
        name = "cache.keys_values_exchanged"
        yield Hypothesis(name, says, _FIX, _read(leaf, _older(_same), older_tap=other_leaf), PLAIN + 1, cause=cause)
    for name, raw, says in _RAW.get(leaf, ()):
        yield Hypothesis(name, says, _FIX, _read(leaf, _older(_same), older_tap=raw), PLAIN + 1)
    for offset in (-1, 1):
        says = f"finds the older slots of the layer {'before' if offset < 0 else 'behind'}"
        yield Hypothesis("cache.other_layer", says, _FIX, _read(leaf, _older(_same), offset), PLAIN + 1)


_OTHER = {
    "k_rope": "v_proj",
    "v_proj": "k_rope",
    "encoder_k_rope": "encoder_v_proj",
    "encoder_v_proj": "encoder_k_rope",
}
"""What the other cache of a pair holds."""
_RAW = {
    keys: (
        ("cache.unrotated", keys.replace("rope", "norm"), "finds older keys as they were before the rotation"),
        ("cache.unnormed", keys.replace("rope", "proj"), "finds older keys as they were projected"),
    )
    for keys in ("k_rope", "encoder_k_rope")
}
"""What keys were before they were written."""


def _same(old: Array) -> Array:
    return old


def _of_first(change: _Older, slots: int) -> _Older:
    """A change of the first slots alone."""

    def changed(old: Array) -> Array | None:
        part = change(old[:, :, :slots]) if old.shape[2] > slots else None
        return None if part is None else np.concatenate((part, old[:, :, slots:]), 2)

    return changed


def _last_of(lengths: Sequence[int]) -> _Older:
    def last(old: Array) -> Array | None:
        ends = np.cumsum(lengths) - 1
        if ends[-1] >= old.shape[2]:
            return None
        changed = np.zeros_like(old)
        changed[:, :, ends] = old[:, :, ends]
        return changed

    return last


def _shared(row: int, prompt: int) -> _Older:
    def shared(old: Array) -> Array | None:
        if len(old) < 2 or old.shape[2] <= prompt:
            return None
        changed = old.copy()
        changed[:, :, prompt:] = old[row, :, prompt:]
        return changed

    return shared


def _older(change: _Older) -> _All:
    """A change of the older slots; the new ones stay."""

    def every(old: Array, new: Array) -> Array | None:
        changed = change(old)
        return None if changed is None or changed.shape != old.shape else np.concatenate((changed, new), 2)

    return every


def _read(tap: str, every: _All, offset: int = 0, *, older_tap: str = "", prompt: bool = False) -> Compute:
    """What a step finds: older slots as `older_tap` (or `tap`) had them in the steps before, `offset` layers on.

    `prompt`: in the first step, which has nothing else, too; and in no other.
    """

    def compute(site: Site) -> Result | None:
        truth = OPS[site.place.op].truth(site)
        layer = (site.place.layer or 0) + offset
        if prompt:
            return truth if site.step else _of(every(truth[0][:, :, :0], truth[0]), truth[1])
        if site.step == 0 or not 0 <= layer < site.config.num_hidden_layers:
            return truth
        written = range(site.step) if site.place.op == "cache" else range(1)
        name = f"decoder.layers.{layer}.merged_attn.{older_tap or tap}"
        parts = [_form(site, name, step) for step in written]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        old = np.concatenate(known, 2)
        if old.shape[:2] != truth[0].shape[:2] or old.shape[2] > truth[0].shape[2]:
            return None
        return _of(every(old, truth[0][:, :, old.shape[2] :]), truth[1])

    return compute


def _of(values: Array | None, unit: Array | None) -> Result | None:
    return None if values is None else (values, unit)


def _form(site: Site, name: str, step: int) -> Array | None:
    """A tap as `[batch, kv_heads, key, head_dim]`; None where it cannot be had."""
    values = site.values.value(name, step)
    return values if values is None or name.endswith("_rope") else heads_first(values, site.config.head_dim)
