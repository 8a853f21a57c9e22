"""What stands in the slots of a wrong cache: each is looked up, bit for bit, among everything of its size recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.fits.finding import Finding
from qwen3_parity.diagnosis.fits.requests import earlier_positions, of_earlier
from qwen3_parity.diagnosis.fits.slots import Slot, listed_by_row
from qwen3_parity.judge.budgets import headroom
from qwen3_spec.heads import heads_first
from qwen3_spec.site import Result, Site

_CACHES = ("cache_keys", "cache_values", "cache_encoder_keys", "cache_encoder_values")
_TAPS = ("k_rope", "k_norm", "k_proj", "v_proj", "encoder_k_rope", "encoder_k_norm", "encoder_k_proj", "encoder_v_proj")

_MOST = 0.75
"""The share of slots with unknown contents from which on that is all there is to say: two requests may share a token,
whose values in the first layer are the same bits."""


def slot_map(evidence: Evidence, result: Result) -> Finding | None:
    """Which slot holds what, where it is wrong: what the request before left, or what stands nowhere.

    A cache is stale where the golden of the request before has what it holds, and not where nobody knows it.
    """
    site, truth, actual = evidence.site, result[0], evidence.actual
    if not site.place.op.startswith("cache") or actual.ndim != 4 or actual.dtype.kind != "f":
        return None
    known, before = _known(site, truth), earlier_positions(site)
    batch, length = actual.shape[0], actual.shape[2]
    computed = _computed_right(evidence, result)
    wrong: dict[int, list[tuple[int, Slot]]] = {}
    for row in range(batch):
        for slot in range(length):
            if truth.shape == actual.shape and not evidence.judged[row, :, slot].any():
                continue
            found = actual[row, :, slot]
            right = truth[row, :, slot] if slot < truth.shape[2] and row < len(truth) else None
            if right is None or not (np.array_equal(found, right) or computed[row, slot]):
                what = _what(found, known)
                what = of_earlier(found.ravel(), *before) or what if what == NOWHERE else what
                wrong.setdefault(row, []).append((slot, what))
    if not wrong:
        return None
    every = [what for some in wrong.values() for _, what in some]
    if evidence.others and _new_alone(site, wrong):
        return None  # what was wrong before it was written
    says = listed_by_row(wrong)
    if any(what in before[1] for what in every):
        return Finding("cache.stale", f"{says}: a request begins with an empty cache", 1.0)
    lost = sum(what == NOWHERE for what in every)
    if lost >= _MOST * len(every):
        return None if _close(evidence, truth) else Finding("cache.unknown", says, 0.5)
    if all(what in (ZEROS, NAN) for what in every):
        return Finding("cache.not_written", says, 1.0)
    return Finding("cache.slot_map", says, 0.5 if lost else 1.0)


def _computed_right(evidence: Evidence, result: Result) -> Array:
    """`[batch, slot]`: what the hidden ops of a group make of new slots, within their noise; nothing is without one."""
    errors = evidence.errors(result) if evidence.others else None
    if errors is None:
        return np.zeros((evidence.actual.shape[0], evidence.actual.shape[2]), bool)
    room = max(headroom("op", op).max for op in evidence.ops)
    return np.asarray((errors <= room).all(axis=(1, 3)))


def _new_alone(site: Site, wrong: Mapping[int, Sequence[tuple[int, Slot]]]) -> bool:
    """Whether only slots that this step writes are wrong, each with something that stands nowhere."""
    past = 0 if site.place.op == "cache_once" else site.stop - site.length
    every = [one for some in wrong.values() for one in some]
    return not (site.place.op == "cache_once" and site.step) and all(s >= past and w == NOWHERE for s, w in every)


def _close(evidence: Evidence, truth: Array) -> bool:
    """Whether the contents are the right ones but for a small error."""
    if truth.shape != evidence.actual.shape:
        return False
    error = float(np.sqrt(np.mean((evidence.actual - truth)[evidence.judged] ** 2)))
    return error < 0.2 * float(np.sqrt(np.mean(truth[evidence.judged] ** 2)))


NOWHERE = Slot("something that stands nowhere in this recording")
ZEROS = Slot("zeros")
NAN = Slot("NaN")


def _what(found: Array, known: dict[bytes, Slot]) -> Slot:
    if np.isnan(found).any():
        return NAN
    if not found.any():
        return ZEROS
    return known.get(_key(found), NOWHERE)


def _key(values: Array) -> bytes:
    return np.ascontiguousarray(values, dtype=np.float32).tobytes()


def _known(site: Site, truth: Array) -> dict[bytes, Slot]:
    """What may stand in a slot, by its bytes; the nearest source of each keeps the name."""
    found: dict[bytes, Slot] = {}
    for where, values in _sources(site, truth):
        for row in range(values.shape[0]):
            for slot in range(values.shape[2]):
                found.setdefault(_key(values[row, :, slot]), Slot(where, row, slot))
    return found


def _sources(site: Site, truth: Array) -> Iterator[tuple[str, Array]]:
    """Labelled arrays `[batch, kv_heads, key, head_dim]` of this step and those before, the nearest first."""
    yield "what belongs in", truth
    layers = sorted(range(site.config.num_hidden_layers), key=lambda i: abs(i - (site.place.layer or 0)))
    own = site.place.name.rpartition(".")[2]
    for layer in layers:
        of = "" if layer == site.place.layer else f"layer {layer}'s "
        for tap in (own, *_CACHES, *_TAPS):
            for step in range(site.step, -1, -1):
                values = _slots(site, layer, tap, step)
                if values is not None and (of or tap != own or step != site.step):
                    yield f"{of}{tap} (step {step})", values


def _slots(site: Site, layer: int, tap: str, step: int) -> Array | None:
    found = site.values.recorded(f"decoder.layers.{layer}.merged_attn.{tap}", step)
    if found is None or tap.startswith("cache") or tap.endswith("_rope"):
        return found
    found = heads_first(found, site.config.head_dim)
    return found if found.shape[1] == site.config.num_key_value_heads else None
