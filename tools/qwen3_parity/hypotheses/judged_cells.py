"""What was recorded at a site, and which of its cells count and are wrong: for guesses that start from the numbers."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import as_stored
from qwen3_parity.judge.budgets import headroom
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site


def recorded(site: Site) -> Array | None:
    """The tap's values where it was recorded with its right shape."""
    return site.values.recorded(site.place.name, site.step)


def real_queries(site: Site) -> Array | None:
    """`[batch, query]`: the queries that are no padding; None without a padding mask."""
    real = site.values.recorded(f"input.{site.stack}_attention_mask", 0)
    if real is None:
        return None
    stop = real.shape[1] if site.stack == "encoder" else site.stop
    return real[:, stop - site.length : stop].astype(bool)


def visible(site: Site) -> Array | None:
    """`[batch, heads, query, key]` of scores or probabilities: cells of real queries and the keys that they may see."""
    actual = recorded(site)
    if actual is None or actual.ndim != 4:
        return None
    mask = site.values.value(site.sibling("mask"), site.step)
    rows = real_queries(site)
    cells = np.isfinite(actual)
    if mask is not None and mask.shape == (actual.shape[0], *actual.shape[2:]):
        cells = cells & mask[:, None].astype(bool)
    if rows is not None and rows.shape == (actual.shape[0], actual.shape[2]):
        cells = cells & rows[:, None, :, None]
    return cells


def wrong_cells(site: Site) -> Array | None:
    """The cells that count and are farther from the right op than its headroom; None where nothing was recorded."""
    actual = recorded(site)
    if actual is None:
        return None
    y, unit = OPS[site.place.op].truth(site)
    if y.shape != actual.shape or unit is None:
        return None
    with np.errstate(all="ignore"):
        errors = np.abs(actual - y) / as_stored(unit, y, site.place.op, site.values.dtype)
    wrong = np.isfinite(actual) & (errors > headroom("op", site.place.op).max)
    if actual.ndim == 4 and "key" in site.place.axes:
        cells = visible(site)
        return np.asarray(wrong if cells is None else wrong & cells)
    rows = real_queries(site)
    if rows is not None and "query" in site.place.axes:
        shape = [1] * actual.ndim
        shape[0], shape[site.place.axes.index("query")] = rows.shape
        wrong = wrong & rows.reshape(shape)
    return np.asarray(wrong)
