"""Caches that hold what belongs elsewhere: another tap, another layer's, keys that were normed or rotated once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.cache_parts import Contents, exact, joined, parts
from qwen3_parity.mistakes.cache_reads import reads
from qwen3_parity.mistakes.cache_turns import turns
from qwen3_parity.mistakes.cache_types import types
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.normed import normed
from qwen3_parity.mistakes.observed import asks_for_all, unit_of
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.requests import earlier
from qwen3_spec import ops
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

FIX = "after a step a cache holds what it held before and then the step's keys (values), each slot once"
ONCE = "the encoder's keys and values are made once, at the first step, and never change"


def _zeros(like: Array, count: int) -> Array:
    return np.zeros((*like.shape[:2], count, like.shape[3]), like.dtype)


def _one_early(before: Array, new: Array, _: Site) -> Array | None:
    """Written one slot early, the last one never."""
    if before.shape[2] == 0:
        return None
    return joined(before[:, :, :-1], new, _zeros(new, 1))


def _one_early_repeated(before: Array, new: Array, _: Site) -> Array | None:
    if before.shape[2] == 0:
        return None
    return joined(before[:, :, :-1], new, new[:, :, -1:])


def _ring(before: Array, new: Array, site: Site) -> Array | None:
    """A ring buffer of the window's size, its slots in the order of memory, then cut or filled to the length."""
    width = site.config.sliding_window
    every = joined(before, new)
    total = every.shape[2]
    if width is None or total <= width:
        return None
    ring = _zeros(every, total)
    for slot in range(total):
        ring[:, :, slot % width] = every[:, :, slot]
    return ring


def _window_alone(before: Array, new: Array, site: Site) -> Array | None:
    width, every = site.config.sliding_window, joined(before, new)
    if width is None or every.shape[2] <= width:
        return None
    return joined(_zeros(every, every.shape[2] - width), every[:, :, -width:])


def _with_memory(site: Site, before: Array, new: Array, *, before_new: bool = False) -> Array | None:
    """The encoder's keys (values) beside the decoder's own."""
    leaf = site.place.name.rpartition(".")[2]
    memory = site.values.value(site.sibling(leaf.replace("cache_", "cache_encoder_")), site.step)
    if memory is None or leaf.startswith("cache_encoder"):
        return None
    # A cache that has grown too long is no input to anything else, but the next step appends to it.
    held = site.values.recording.get(site.place.name, site.step - 1)
    before = before if held is None else held.values()
    return joined(before, memory, new) if before_new else joined(before, new, memory)


def _one_row(which: int) -> Contents:
    def contents(before: Array, new: Array, _: Site) -> Array | None:
        every = joined(before, new)
        return np.broadcast_to(every[[which]], every.shape) if len(every) > 1 else None

    return contents


def _rows(order: Callable[[int], Array], *, new_alone: bool = False) -> Contents:
    def contents(before: Array, new: Array, _: Site) -> Array | None:
        if len(new) < 2 or (new_alone and before.shape[2] == 0):
            return None
        at = order(len(new))
        return joined(before, new[at]) if new_alone else joined(before, new)[at]

    return contents


def _previous(n: int) -> Array:
    return np.asarray(np.arange(n) - 1)


def _following(n: int) -> Array:
    return np.asarray((np.arange(n) + 1) % n)


def _of_earlier(before: Array, new: Array, site: Site) -> Array | None:
    """What the request before left in the slots that this one filled in earlier steps."""
    request = earlier(site)
    left = [] if request is None else [item for item in request if item.info.name == site.place.name]
    held = max(left, key=lambda item: item.info.step).values() if left else before[:0]
    fits = held.ndim == 4 and len(held) == len(before) and held.shape[2] >= before.shape[2] > 0
    return joined(held[:, :, : before.shape[2]], new) if fits else None


_EMPTY = "leaves the new slots zero"

_CONTENTS: tuple[tuple[str, str, Contents, Rank], ...] = (
    ("not_written", _EMPTY, lambda b, n, _: joined(b, np.zeros_like(n)), PLAIN),
    ("not_written", "is all zero", lambda b, n, _: joined(np.zeros_like(b), np.zeros_like(n)), PLAIN + 1),
    ("not_written", "loses what it held: the old slots are zero", lambda b, n, _: joined(np.zeros_like(b), n), PLAIN),
    ("not_written", "loses what it held in every KV head but the first",
     lambda b, n, _: joined(b * (np.arange(b.shape[1]) == 0)[:, None, None], n), PLAIN + 1),
    ("stale", "has what the request before left where it held its own", _of_earlier, PLAIN),
    ("stale", "repeats its last slot where the new ones belong",
     lambda b, n, _: joined(b, np.repeat(b[:, :, -1:], n.shape[2], 2)) if b.shape[2] else None, PLAIN),
    ("stale", "keeps what it held and no more", lambda b, n, _: b if b.shape[2] else None, PLAIN),
    ("shifted", "writes one slot early: the last old slot is lost, the last slot zero", _one_early, PLAIN),
    ("shifted", "writes one slot early and the last key twice", _one_early_repeated, PLAIN + 1),
    ("shifted", "writes one slot late: a gap of zeros, the last key lost",
     lambda b, n, _: joined(b, _zeros(n, 1), n[:, :, :-1]), PLAIN),
    ("shifted", "has its contents one slot late, rolled", lambda b, n, _: np.roll(joined(b, n), 1, 2), PLAIN + 1),
    ("shifted", "has its contents one slot early, rolled", lambda b, n, _: np.roll(joined(b, n), -1, 2), PLAIN + 1),
    ("shifted", "drops the first slot and has zeros at the end",
     lambda b, n, _: joined(b, n, _zeros(n, 1))[:, :, 1:], PLAIN + 1),
    ("shifted", "drops the first slot and repeats the last",
     lambda b, n, _: joined(b, n, n[:, :, -1:])[:, :, 1:], PLAIN + 1),
    ("slot_order", "has the new slots before the old ones", lambda b, n, _: joined(n, b), PLAIN),
    ("slot_order", "has its slots in reverse order", lambda b, n, _: joined(b, n)[:, :, ::-1], PLAIN + 1),
    ("slot_order", "has the new slots in reverse order", lambda b, n, _: joined(b, n[:, :, ::-1]), PLAIN + 1),
    ("overwritten", "writes over its first slots",
     lambda b, n, _: joined(n, b[:, :, n.shape[2] :], _zeros(n, n.shape[2])), PLAIN),
    ("overwritten", "writes over its first slots, and at the end as well",
     lambda b, n, _: joined(n, b[:, :, n.shape[2] :], n) if b.shape[2] >= n.shape[2] else None, PLAIN + 1),
    ("overwritten", "writes over its last slots, and at the end as well",
     lambda b, n, _: joined(b[:, :, : -n.shape[2]], n, n) if b.shape[2] >= n.shape[2] else None, PLAIN + 1),
    ("overwritten", "writes the first new key into every new slot",
     lambda b, n, _: joined(b, np.repeat(n[:, :, :1], n.shape[2], 2)), RARE),
    ("overwritten", "writes the last new key into every new slot",
     lambda b, n, _: joined(b, np.repeat(n[:, :, -1:], n.shape[2], 2)), RARE),
    ("overwritten", "fills every slot with the new keys",
     lambda b, n, _: n[:, :, np.arange(b.shape[2] + n.shape[2]) % n.shape[2]] if n.shape[2] else None, RARE),
    ("ring", "wraps around at the window's size", _ring, PLAIN),
    ("truncated", "keeps the window alone, older slots are zero", _window_alone, PLAIN),
    ("truncated", "holds the new slots alone", lambda b, n, _: n if b.shape[2] else None, PLAIN),
    ("truncated", "drops its oldest slot", lambda b, n, _: joined(b, n)[:, :, 1:], PLAIN),
    ("truncated", "is cut to the window",
     lambda b, n, s: joined(b, n)[:, :, -s.config.sliding_window :] if s.config.sliding_window else None, PLAIN),
    ("encoder_appended_again", "holds the encoder's slots after its own", lambda b, n, s: _with_memory(s, b, n), PLAIN),
    ("encoder_appended_again", "holds the encoder's slots before the new ones",
     lambda b, n, s: _with_memory(s, b, n, before_new=True), PLAIN + 1),
    ("appended_twice", "holds the new slots twice", lambda b, n, _: joined(b, n, n), PLAIN),
    ("appended_twice", "holds the old slots twice", lambda b, n, _: joined(b, b, n) if b.shape[2] else None, PLAIN),
    ("other_row", "has the batch row before", _rows(_previous), PLAIN),
    ("other_row", "has the batch row behind", _rows(_following), PLAIN),
    ("other_row", "has the batch rows in reverse order", _rows(lambda n: np.arange(n)[::-1]), PLAIN + 1),
    ("other_row", "has the first batch row in every row", _one_row(0), PLAIN),
    ("other_row", "has the last batch row in every row", _one_row(-1), PLAIN),
    ("other_row", "has the new slots of the batch row before", _rows(_previous, new_alone=True), PLAIN),
    ("other_row", "has the new slots of the batch row behind", _rows(_following, new_alone=True), PLAIN),
    ("other_row", "has the first batch row's new slots in every row",
     _rows(lambda n: np.zeros(n, int), new_alone=True), PLAIN),
    ("kv_heads", "has its heads in reverse order", lambda b, n, _: joined(b, n)[:, ::-1], PLAIN + 1),
    ("kv_heads", "has KV head 0 in every head", lambda b, n, _: joined(b, n)[:, [0] * n.shape[1]], PLAIN + 1),
    ("kv_heads", "has its heads rolled by one", lambda b, n, _: np.roll(joined(b, n), 1, 1), PLAIN + 1),
    ("kv_heads", "has the new heads and positions in each other's order",
     lambda b, n, _: joined(b, np.ascontiguousarray(n.swapaxes(1, 2)).reshape(n.shape)), PLAIN + 1),
)  # fmt: skip
"""The ends of names, what is wrong, the contents."""

_WRITTEN = ("other_row", "kv_heads", "shifted", "slot_order", "truncated", "ring")
"""Mistakes that may be made once, when a step's slots are written, and not again with what is there."""


def _new_alone(rule: Contents) -> Contents:
    def contents(before: Array, new: Array, site: Site) -> Array | None:
        if new.shape[2] == 0:
            return before
        written = rule(new[:, :, :0], new, site)
        return None if written is None else joined(before, written)

    return contents


def contents(site: Site) -> Iterator[Hypothesis]:
    """The mistakes of the table, for a cache that grows and for one that is filled once."""
    fix = ONCE if site.place.op == "cache_once" else FIX
    for name, says, rule, rank in _CONTENTS:
        rank += says == _EMPTY and asks_for_all()  # a branch that is not added gives the same, and is plainer
        yield Hypothesis(f"cache.{name}", says, fix, exact(rule), rank)
        if name in _WRITTEN:
            yield Hypothesis(f"cache.{name}", f"{says}, in what is written", fix, exact(_new_alone(rule)), rank)


_KINDS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "cache_keys": (
        ("cache.keys_values_exchanged", "v_proj", "holds values where keys belong"),
        ("cache.unrotated", "k_norm", "holds keys that were not rotated"),
        ("cache.unnormed", "k_proj", "holds keys that were neither normed nor rotated"),
        ("cache.queries", "q_rope", "holds queries"),
        ("cache.other_stack", "encoder_k_rope", "holds the encoder's keys"),
    ),
    "cache_values": (
        ("cache.keys_values_exchanged", "k_rope", "holds keys where values belong"),
        ("cache.keys_values_exchanged", "k_norm", "holds unrotated keys where values belong"),
        ("cache.keys_values_exchanged", "k_proj", "holds raw keys where values belong"),
        ("cache.other_stack", "encoder_v_proj", "holds the encoder's values"),
    ),
    "cache_encoder_keys": (
        ("cache.keys_values_exchanged", "encoder_v_proj", "holds values where keys belong"),
        ("cache.unrotated", "encoder_k_norm", "holds keys that were not rotated"),
        ("cache.unnormed", "encoder_k_proj", "holds keys that were neither normed nor rotated"),
        ("cache.other_stack", "k_rope", "holds the decoder's keys"),
    ),
    "cache_encoder_values": (
        ("cache.keys_values_exchanged", "encoder_k_rope", "holds keys where values belong"),
        ("cache.keys_values_exchanged", "encoder_k_norm", "holds unrotated keys where values belong"),
        ("cache.keys_values_exchanged", "encoder_k_proj", "holds raw keys where values belong"),
        ("cache.other_stack", "v_proj", "holds the decoder's values"),
    ),
}
"""For each cache: taps of the same attention that it may hold by mistake."""


def other_kind(site: Site) -> Iterator[Hypothesis]:
    """Another tap of the same attention, or of another layer, in the slots of every step or in the new ones."""
    leaf = site.place.name.rpartition(".")[2]
    for name, tap, says in _KINDS.get(leaf, ()):
        fix = f"append {site.place.inputs[0][0].rpartition('.')[2]}"
        cause = f"{name} of both caches" if tap.endswith(("v_proj", "k_rope")) else ""  # what the other should hold
        hidden = all(site.values.recorded(each, site.step) is None for each in site.names)
        elsewhere = name == "cache.unrotated" and hidden  # the same as keys that are not rotated at all
        yield Hypothesis(name, says, fix, _every_step(tap), PLAIN + elsewhere, cause=cause)
        cause = cause and f"{cause}, new"
        yield Hypothesis(name, f"{says}, in the new slots", fix, _new_from(tap), PLAIN + 1, cause=cause)
    for layer in range(site.config.num_hidden_layers):
        if layer != site.place.layer:
            offset = layer - (site.place.layer or 0)
            says, fix = f"holds those of layer {layer}", "each layer has a cache of its own"
            yield Hypothesis("cache.other_layer", says, fix, _of_layer(offset=offset), PLAIN + (abs(offset) - 1))
            yield Hypothesis("cache.other_layer", says, fix, _of_layer(layer=layer), RARE + 1)


def _attention_tap(site: Site, tap: str, step: int) -> Array | None:
    values = site.values.value(site.sibling(tap), step)
    if values is None:
        return None
    values = values if tap.endswith("_rope") else heads_first(values, site.config.head_dim)
    return values if values.shape[1] == site.config.num_key_value_heads else None


def _every_step(tap: str) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        steps = [0] if site.place.op == "cache_once" else range(site.step + 1)
        taps = [_attention_tap(site, tap, step) for step in steps]
        parts = [values for values in taps if values is not None]
        return (joined(*parts), None) if len(parts) == len(taps) and any(part.any() for part in parts) else None

    return compute


def _new_from(tap: str) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        new = _attention_tap(site, tap, site.step)
        return None if new is None or site.before is None or not new.any() else (joined(site.before, new), None)

    return compute


def _of_layer(*, offset: int | None = None, layer: int | None = None) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        at = layer if offset is None else (site.place.layer or 0) + offset
        if at is None or not 0 <= at < site.config.num_hidden_layers or at == site.place.layer:
            return None
        attention = f"decoder.layers.{at}.merged_attn"
        of = site.values.site(f"{attention}.{site.place.name.rpartition('.')[2]}", site.step)
        return None if of is None else (OPS[site.place.op].truth(of)[0], None)

    return compute


def _tables(site: Site, start: int, stop: int, *, memory: bool) -> tuple[Array, Array] | None:
    which = "encoder" if memory else "decoder"
    positions = site.values.recorded(f"input.{which}_position_ids", 0)
    frequencies = site.values.value("decoder.inv_freq", 0)
    if positions is None or frequencies is None or positions.shape[1] < stop:
        return None
    return ops.rope_table.forward(positions[:, start:stop], frequencies, site.config.attention_factor)


def as_keys(site: Site) -> Iterator[Hypothesis]:
    """Values that were normed or rotated before they were written, as keys are."""
    if not site.place.name.endswith("values"):
        return
    fix = "values are neither normed nor rotated"
    for norm in ("k_norm", "q_norm"):
        says = f"holds values that went through {norm}"
        yield Hypothesis("cache.values_normed", says, fix, _renormed(old=False, norm=norm))
    rotated = _rerotated(old=False, here=False)
    yield Hypothesis("cache.values_rotated", "holds values that were rotated", fix, rotated)


def again(site: Site) -> Iterator[Hypothesis]:
    """Keys that were normed or rotated once more, at their own or at the step's positions."""
    if not site.place.name.endswith("keys"):
        return
    fix = "cached keys are normed and rotated already"
    for old, says in ((True, "norms what it held again"), (False, "norms the new keys again")):
        yield Hypothesis("cache.renormed", says, fix, _renormed(old=old), PLAIN + (not old))
    for old, says in ((True, "rotates what it held again"), (False, "rotates the new keys again")):
        yield Hypothesis("cache.rerotated", says, fix, _rerotated(old=old, here=False), PLAIN + 1)
    says = "rotates what it held again, at the step's first position"
    yield Hypothesis("cache.rerotated", says, fix, _rerotated(old=True, here=True), RARE)


def _split(site: Site) -> tuple[Array, Array] | None:
    if site.inputs:
        return parts(site)
    return None if site.before is None else (site.before, site.before[:, :, :0])


def _in_part(old: Array, new: Array, changed: Array, unit: Array, *, is_old: bool) -> Result:
    """One part changed, with its rounding unit; the other is exact."""
    exact = np.zeros_like(new if is_old else old, dtype=np.float64)
    values = (changed, new) if is_old else (old, changed)
    noise = (unit, exact) if is_old else (exact, unit)
    return joined(*values), joined(*noise)


def _renormed(*, old: bool, norm: str = "k_norm") -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        parts, weight = _split(site), site.checkpoint.get(f"{site.sibling(norm)}.weight")
        if parts is None or weight is None or not parts[not old].shape[2]:
            return None
        changed, noise = normed(site, parts[not old], weight)
        return _in_part(*parts, changed, unit_of((changed, noise)), is_old=old)

    return compute


def _rerotated(*, old: bool, here: bool) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        parts = _split(site)
        if parts is None or not parts[not old].shape[2]:
            return None
        memory = site.place.op == "cache_once"
        past, added = parts[0].shape[2], parts[1].shape[2]
        span = (past, past + 1) if here else (0, past) if old else (past, past + added)
        table = _tables(site, *span, memory=memory and not here)
        if table is None:
            return None
        cos, sin = (np.broadcast_to(part, (len(part), parts[not old].shape[2], part.shape[2])) for part in table)
        changed = ops.rope.forward(parts[not old], cos, sin)
        return _in_part(*parts, changed, ops.rope.unit(parts[not old], cos, sin), is_old=old)

    return compute


MISTAKES: Mapping[str, Mistakes] = {
    "cache": Mistakes((contents, types, other_kind, as_keys, again, turns, reads)),
    "cache_once": Mistakes((contents, types, other_kind, as_keys, again, reads)),
}
