"""Caches that hold what belongs elsewhere: another tap, another layer's, keys that were normed or rotated once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.cache_contents import joined, parts
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_spec import ops
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

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
    own = site.place.name.rpartition(".")[2]
    for name, tap, says in _KINDS.get(own, ()):
        fix = f"append {site.place.inputs[0][0].rpartition('.')[2]}"
        yield Hypothesis(name, says, fix, _every_step(tap), 0)
        yield Hypothesis(name, f"{says}, in the new slots", fix, _new_from(tap), 1)
    for layer in range(site.config.num_hidden_layers):
        if layer != site.place.layer:
            offset = layer - (site.place.layer or 0)
            says = f"holds those of layer {layer}"
            fix = "each layer has a cache of its own"
            yield Hypothesis("cache.other_layer", says, fix, _of_layer(offset=offset), abs(offset) - 1)
            yield Hypothesis("cache.other_layer", says, fix, _of_layer(layer=layer), 3)


def _attention_tap(site: Site, tap: str, step: int) -> Array | None:
    found = site.values.value(site.sibling(tap), step)
    if found is None:
        return None
    found = found if tap.endswith("_rope") else heads_first(found, site.config.head_dim)
    return found if found.shape[1] == site.config.num_key_value_heads else None


def _every_step(tap: str) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        steps = [0] if site.place.op == "cache_once" else range(site.step + 1)
        found = [_attention_tap(site, tap, step) for step in steps]
        parts = [one for one in found if one is not None]
        return (joined(*parts), None) if len(parts) == len(found) and any(one.any() for one in parts) else None

    return compute


def _new_from(tap: str) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        found = _attention_tap(site, tap, site.step)
        return None if found is None or site.before is None or not found.any() else (joined(site.before, found), None)

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


def again(site: Site) -> Iterator[Hypothesis]:
    """Keys that were normed or rotated once more, at their own or at the step's positions."""
    if not site.place.name.endswith("keys"):
        return
    fix = "cached keys are normed and rotated already"
    for old, says in ((True, "norms what it held again"), (False, "norms the new keys again")):
        yield Hypothesis("cache.renormed", says, fix, _renormed(old=old), int(not old))
    for old, says in ((True, "rotates what it held again"), (False, "rotates the new keys again")):
        yield Hypothesis("cache.rerotated", says, fix, _rerotated(old=old, here=False), 1)
    says = "rotates what it held again, at the step's first position"
    yield Hypothesis("cache.rerotated", says, fix, _rerotated(old=True, here=True), 2)


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


def _renormed(*, old: bool) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        parts, weight = _split(site), site.checkpoint.get(f"{site.sibling('k_norm')}.weight")
        if parts is None or weight is None or not parts[not old].shape[2]:
            return None
        changed = ops.rms_norm.forward(parts[not old], weight, site.config.rms_norm_eps)
        return _in_part(*parts, changed, ops.rms_norm.unit(changed, parts[not old]), is_old=old)

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
        cos, sin = (np.broadcast_to(one, (len(one), parts[not old].shape[2], one.shape[2])) for one in table)
        changed = ops.rope.forward(parts[not old], cos, sin)
        return _in_part(*parts, changed, ops.rope.unit(parts[not old], cos, sin), is_old=old)

    return compute
