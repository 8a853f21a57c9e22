"""Embeddings that are more than rows of the table: something added, normalised, or rows of no table at all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.observed import encoder_slots, real, seen
from qwen3_spec import ops
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

FIX = "copy row id of the embedding table, unchanged"


def ids_of(site: Site) -> Array:
    """The ids of this step, `[batch, seq]`."""
    return site.this_step(site.inputs[0]).astype(np.int64)


def table_of(site: Site) -> Array:
    """The embedding table, `[vocab, hidden]`."""
    return site.parameters["weight"]


def rows_of(site: Site) -> Array:
    """The right rows in float64, `[batch, seq, hidden]`."""
    return np.asarray(table_of(site)[ids_of(site)], np.float64)


def rounded_unit(y: Array) -> Array:
    """The unit of numbers that were computed once, not copied."""
    return np.asarray(FLOAT32_ROUNDOFF * np.abs(y) + 2.0**-126)


def all_ids(site: Site) -> Array:
    """The ids of every step, `[batch, total]`."""
    return site.inputs[0].astype(np.int64)


def stop_of(site: Site) -> int:
    """Slots after this step."""
    return all_ids(site).shape[1] if encoder_slots(site) else site.stop


def _padding(site: Site) -> Array | None:
    """`[batch, seq]`, True = padding."""
    mask = site.values.recorded(site.names[0].replace("input_ids", "attention_mask"), 0)
    return None if mask is None else ~site.this_step(mask).astype(bool)


def _positions(site: Site, *, counted: bool) -> Array:
    """`[batch, seq]`: position ids, or slots whatever is padding."""
    ids = ids_of(site)
    if counted:
        found = site.values.value(site.place.name.replace("embed_tokens", "position_ids"), site.step)
        if found is not None and found.shape == ids.shape:
            return found.astype(np.int64)
    return np.broadcast_to(np.arange(stop_of(site) - ids.shape[1], stop_of(site)), ids.shape)


def _sinusoids(at: Array, hidden: int, *, woven: bool) -> Array:
    """The Transformer's positions `[batch, seq, hidden]`: sines and cosines by turns, or in halves."""
    angle = at[..., None] / 10000.0 ** (np.arange(-(-hidden // 2)) / (hidden / 2))
    parts = (np.sin(angle), np.cos(angle))
    joined = np.stack(parts, axis=-1).reshape(*at.shape, -1) if woven else np.concatenate(parts, axis=-1)
    return joined[..., :hidden]


def additions() -> Iterator[Hypothesis]:
    def plus(start: int, woven: bool, counted: bool, site: Site) -> Result:
        at = _positions(site, counted=counted) + start
        added = _sinusoids(at, table_of(site).shape[1], woven=woven)
        return rows_of(site) + added, rounded_unit(np.abs(rows_of(site)) + 1 + np.abs(added) + at[..., None])

    def normed(site: Site) -> Result:
        x = rows_of(site)
        y = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + site.config.rms_norm_eps)
        return y, ops.rms_norm.unit(y, x)

    def unit_length(site: Site) -> Result:
        x = rows_of(site)
        y = x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
        return y, ops.rms_norm.unit(y, x)

    def masked(site: Site) -> Result | None:
        padding = _padding(site)
        return None if padding is None else (np.where(padding[..., None], 0.0, rows_of(site)), None)

    for start, woven, counted in product((0, 1), (True, False), (True, False)):
        what, how = "positions" if counted else "slots", "by turns" if woven else "in halves"
        says = f"adds sinusoids of {what} from {start}, sines and cosines {how}"
        yield Hypothesis("embedding.positions_added", says, FIX, partial(plus, start, woven, counted), 1)
    yield Hypothesis("embedding.normed", "normalises its rows", FIX, normed, 1)
    yield Hypothesis("embedding.normed", "scales its rows to length 1", FIX, unit_length, 1)
    yield Hypothesis("embedding.padding_zeroed", "gives padding rows of zeros", FIX, masked, 1)


def added(site: Site) -> Iterator[Hypothesis]:
    """One vector for each position, or one on every token: for embeddings that nothing else explains."""
    for name, says, key, rank in (
        ("embedding.positions_added", "adds a vector of its own at each position", "position", 7),
        ("embedding.positions_added", "adds a vector of its own at each slot", "slot", 7),
        ("embedding.constant_added", "adds the same vector to every token", "", 6),
        ("weight.unknown", "has rows of no tensor of the checkpoint, the same whenever an id comes again", "id", 9),
    ):
        yield Hypothesis(name, says, FIX, partial(_plus_told, key), rank)


def _keys(site: Site, key: str) -> Array:
    if key == "id":
        return ids_of(site)
    return _positions(site, counted=key == "position") if key else np.zeros(ids_of(site).shape, np.int64)


def _plus_told(key: str, site: Site) -> Result | None:
    """What tokens of one key have in common beside their rows; None where no two tokens share one."""
    what = seen(site)
    if what is None:
        return None
    keys = _keys(site, key)
    cells = real(site)
    good = what.wrong.any(axis=-1) & (True if cells is None else cells[..., 0])
    difference, told, shared = what.actual - what.truth, np.zeros(what.truth.shape), False
    for one in np.unique(keys[good]):
        same = good & (keys == one)
        # The token of the smallest sum was rounded least.
        least = np.argmin(np.abs(what.actual[same]), axis=0)
        told[keys == one] = np.take_along_axis(difference[same], least[None], axis=0)[0]
        shared = shared or int(same.sum()) > 1
    return (what.truth + told, rounded_unit(np.abs(what.truth) + np.abs(told))) if shared else None
