"""RoPE by wrong angles: right rotations at other positions or frequencies than the tables that it is given."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes import frequencies, rope_scaling
from qwen3_parity.mistakes import position_ids as positions
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import Observed, observe
from qwen3_parity.mistakes.observed import real as real_cells
from qwen3_parity.mistakes.ranks import FITTED, RARE
from qwen3_spec import ops
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

FIX = "turn token t by position_ids[t] * inv_freq, the same tables as every other layer and stack"
_NAMES = {"table.theta": "rope.other_theta", "positions.other_row": "rope.other_row"}
_NEAR = 64
"""Positions around the right one that a rotation is compared with."""


def by_angles(site: Site, observed: Observed | None) -> Iterator[Hypothesis]:
    """Other positions, then other frequencies: by rule, and as the recorded rotation tells them."""
    table_inputs = _table_inputs(site)
    if table_inputs is None:
        return
    ids, freq = table_inputs
    s = positions.slots(site, ids)
    near = list(positions.rules(s, site.config.sliding_window, positions.longest_of(site)))
    tables = list(rope_scaling.rules(site.config, site.case.config.max_position_embeddings, freq))
    solved = None if observed is None else _solved(site, observed)
    if solved is not None:
        known = np.ones(ids.shape, bool) if (cells := _known(site)) is None else cells
        fit = positions.fitted(ids, _nearest(ids, freq, solved), known)
        near += [] if fit is None else [fit]
        tables += rope_scaling.fitted(site, freq, _frequencies(ids, solved, freq))
    for rule in near:
        name = _NAMES.get(
            rule.name, "rope.half_precision" if rule.name.endswith("precision") else "rope.other_position"
        )
        if rule.says.startswith("has position 0"):
            name = "rope.not_applied"
        yield Hypothesis(name, f"turns by wrong positions: it {rule.says}", FIX, partial(_moved, rule), rule.rank + 1)
    says = "turns by wrong positions: it takes the axis of heads for that of tokens, each head by its own number"
    yield Hypothesis("rope.other_position", says, FIX, partial(_by_heads, freq), RARE)
    for table in tables:
        name = _NAMES.get(table.name, table.name)
        yield Hypothesis(
            name, f"turns by wrong frequencies: it {table.says}", FIX, partial(_paced, table), table.rank + 1
        )


def other_angle(site: Site) -> Iterator[Hypothesis]:
    """Angles of no rule, one for each token and pair, the same in every head: for what nothing else explains."""
    observed = observe(site)
    if observed is not None and observed.actual.shape[1] > 1:  # one head tells any angle
        says = "rotates every head alike, but by angles that neither other positions nor other frequencies give"
        yield Hypothesis("rope.other_angle", says, FIX, _as_turned, FITTED)


def _as_turned(site: Site) -> Result | None:
    observed = observe(site)
    if observed is None:
        return OPS["rope"].truth(site)
    turns = _solved(site, observed)[:, None]
    x = np.asarray(heads_first(site.inputs[0], site.config.head_dim), np.float64)
    turns = site.config.attention_factor * turns / np.where(np.abs(turns) > 0, np.abs(turns), 1)
    cos, sin = (np.concatenate([part, part], axis=-1)[:, 0] for part in (turns.real, turns.imag))
    noise = FLOAT32_ROUNDOFF * np.hypot(x, ops.rope.rotate_half(x))
    return ops.rope.forward(x, cos, sin), np.hypot(ops.rope.unit(x, cos, sin), noise)


def _table_inputs(site: Site) -> tuple[Array, Array] | None:
    """The positions and frequencies that the site's tables were made from."""
    table = site.values.site(site.names[1], site.step)
    return None if table is None else (table.inputs[0], np.asarray(table.inputs[1], np.float64))


def _turned(site: Site, ids: Array, freq: Array) -> Result:
    """x turned by tables made anew, with the noise of their making."""
    x = np.asarray(heads_first(site.inputs[0], site.config.head_dim), np.float64)
    ids, factor = np.asarray(ids, np.float64), site.config.attention_factor
    cos, sin = ops.rope_table.forward(ids, freq, factor)
    noise = ops.rope_table.unit(ids, freq, factor)[:, None]
    unit = ops.rope.unit(x, cos, sin)
    return ops.rope.forward(x, cos, sin), np.hypot(unit, noise * np.hypot(x, ops.rope.rotate_half(x)))


def _moved(rule: positions.Rule, site: Site) -> Result | None:
    table_inputs = _table_inputs(site)
    ids = None if table_inputs is None else rule.change(positions.slots(site, table_inputs[0]))
    return None if table_inputs is None or ids is None else _turned(site, ids, table_inputs[1])


def _by_heads(freq: Array, site: Site) -> Result:
    x = np.swapaxes(np.asarray(heads_first(site.inputs[0], site.config.head_dim), np.float64), 1, 2)
    ids, factor = np.broadcast_to(np.arange(x.shape[2]), (len(x), x.shape[2])), site.config.attention_factor
    cos, sin = ops.rope_table.forward(ids, freq, factor)
    return np.swapaxes(ops.rope.forward(x, cos, sin), 1, 2), np.swapaxes(ops.rope.unit(x, cos, sin), 1, 2)


def _paced(rule: frequencies.Rule, site: Site) -> Result | None:
    table_inputs = _table_inputs(site)
    if table_inputs is None:
        return None
    return _turned(site, table_inputs[0], np.asarray(rule.change(table_inputs[1], site.config), np.float64))


def _solved(site: Site, observed: Observed) -> Array:
    """The turn of each pair at each position as a complex number `[batch, seq, pair]`, its size the certainty."""
    x = np.asarray(heads_first(site.inputs[0], site.config.head_dim), np.float64)
    y = observed.actual.astype(np.float64)
    pairs = x.shape[-1] // 2
    a, b = (values[..., :pairs] + 1j * values[..., pairs:] for values in (x, y))
    return np.asarray((np.conj(a) * b).sum(axis=1))


def _nearest(ids: Array, freq: Array, solved: Array) -> Array:
    """The position that turns most like what was recorded, for each token: among those near the right one."""
    offsets = np.arange(-_NEAR, _NEAR + 1)
    tried = ids[..., None] + offsets[None, None]
    turns = np.exp(-1j * tried[..., None] * freq)
    likeness = np.real(turns * solved[:, :, None]).sum(axis=-1)
    return np.asarray(ids + offsets[np.argmax(likeness, axis=-1)])


def _frequencies(ids: Array, solved: Array, freq: Array) -> Array:
    """The frequencies that the rotation at position 1 tells; the right ones where no token has it."""
    cells = ids == 1
    return np.asarray(np.angle(solved[cells].sum(axis=0))) if cells.any() else freq


def _known(site: Site) -> Array | None:
    cells = real_cells(site)
    return None if cells is None else cells.reshape(cells.shape[0], -1)
