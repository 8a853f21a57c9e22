"""What a site shows of a wrong op: the recorded numbers beside the right ones, for mistakes that are read off them."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import as_stored
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.mistakes.formulas import Formula
from qwen3_parity.mistakes.hypothesis import Compute, Hypothesis
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site


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


def visible_cells(site: Site) -> Array | None:
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
        cells = visible_cells(site)
        return np.asarray(wrong if cells is None else wrong & cells)
    rows = real_queries(site)
    if rows is not None and "query" in site.place.axes:
        shape = [1] * actual.ndim
        shape[0], shape[site.place.axes.index("query")] = rows.shape
        wrong = wrong & rows.reshape(shape)
    return np.asarray(wrong)


_SOME, _FAR = 0.9, 1e-3
"""The part of the wrong cells that a guess must bring back before it is worth a full test; what is far, of the largest."""


class Observed(NamedTuple):
    """A recorded tap, what it should be (with its unit; None for an exact op), and which cells are wrong."""

    actual: Array
    truth: Array
    unit: Array | None
    wrong: Array


_latest: list[tuple[Site, Observed | None]] = []
"""The site that was looked at last: several guesses start from the same numbers, and those of a head cost seconds."""


def observe(site: Site) -> Observed | None:
    """What was recorded at a site beside the truth; None where nothing was, the shape is another, or nothing is wrong."""
    if not (_latest and _latest[0][0] is site):
        _latest[:] = [(site, _observe(site))]
    return _latest[0][1]


def _observe(site: Site) -> Observed | None:
    actual = recorded(site)
    if actual is None:
        return None
    truth, unit = OPS[site.place.op].truth(site)
    if truth.shape != actual.shape:
        return None
    errors = _errors(site, actual, truth, unit)
    # What is not finite, or padding, tells nothing of the mistake.
    wrong = (errors > _tolerance(site)) & np.isfinite(actual)
    cells = visible_cells(site) if OPS[site.place.op].masked else real(site)
    if cells is not None and cells.ndim == wrong.ndim and (wrong & cells).any():
        wrong &= cells
    return Observed(actual, truth, unit, wrong) if wrong.any() else None


def encoder_slots(site: Site) -> bool:
    """Whether a tap's positions are the encoder's: in its own stack, and where the decoder reads it."""
    return site.stack == "encoder" or "encoder_" in site.place.name.rpartition(".")[2]


def real(site: Site) -> Array | None:
    """The positions of a tap that are no padding, with its axes `[batch, …]` of size 1 elsewhere; None without such."""
    axes = site.place.axes
    axis = next((i for i, name in enumerate(axes) if name in ("query", "key")), None)
    encoder = encoder_slots(site)
    mask = site.values.recorded(f"input.{'encoder' if encoder else 'decoder'}_attention_mask", 0)
    if mask is None or axis is None or axes[0] != "batch":
        return None
    stop = mask.shape[1] if encoder else site.stop
    start = 0 if site.place.op == "cache" else stop - site.length  # it has every slot so far
    shape = [1] * len(axes)
    cells = mask[:, start:stop].astype(bool)
    shape[0], shape[axis] = cells.shape
    return cells.reshape(shape)


def explains(site: Site, observed: Observed, result: Result | None) -> bool:
    """Whether a guess brings most of the wrong cells back into the op's headroom (a quick look, no judgement)."""
    if result is None or result[0].shape != observed.actual.shape:
        return False
    errors = _errors(site, observed.actual, *result)
    return bool(np.mean(errors[observed.wrong] <= _tolerance(site)) >= _SOME)


def settles(site: Site, observed: Observed, result: Result | None) -> bool:
    """Whether a guess leaves no cell outside of the op's headroom."""
    if result is None or result[0].shape != observed.actual.shape:
        return False
    cells = real(site)
    judged = np.isfinite(observed.actual) & (True if cells is None else cells)
    return bool((_errors(site, observed.actual, *result)[judged] <= _tolerance(site)).all())


def factor_between(source: Array, target: Array) -> float:
    """The factor that brings `source` closest to `target`; 0 without numbers."""
    squares = float(np.vdot(source, source))
    return float(np.vdot(source, target)) / squares if squares else 0.0


def unit_of(result: Result) -> Array:
    """The rounding unit of an op that has one."""
    assert result[1] is not None
    return result[1]


_every: ContextVar[bool] = ContextVar("every", default=False)


@contextmanager
def every_guess() -> Iterator[None]:
    """Inside, `likely` hands on every guess: for those who ask what the library knows, not what explains a tap."""
    token = _every.set(True)
    try:
        yield
    finally:
        _every.reset(token)


def asks_for_all() -> bool:
    """Whether every guess is asked for."""
    return _every.get()


def likely(site: Site, observed: Observed | None, guesses: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    """The guesses that pass a quick look; the plain ones where nothing was recorded to look at."""
    for hypothesis in guesses:
        with np.errstate(all="ignore"):
            if _every.get() or (
                hypothesis.rank.plain if observed is None else _explained(site, observed, hypothesis.compute)
            ):
                yield hypothesis


def _explained(site: Site, observed: Observed, compute: Compute) -> bool:
    """Of a formula, whether it comes near, and only then what rounding does to it."""
    if isinstance(compute, Formula):
        y = compute.wrong(site)
        if y is None or y.shape != observed.actual.shape:
            return False
        far = np.abs(y - observed.actual)[observed.wrong] > _FAR * np.abs(observed.actual[observed.wrong]).max()
        if np.mean(far) > 1 - _SOME:
            return False
    return explains(site, observed, compute(site))


def narrowed(y: Array, unit: Array, rounded: Callable[[Array], Array]) -> tuple[Array, Array]:
    """A value that is rounded to a narrower type on the way, and its unit: a step more where noise may tip a tie."""
    reach = 4 * unit
    step = np.abs(rounded(y + reach).astype(np.float64) - rounded(y - reach))
    return rounded(y).astype(np.float64), np.asarray(unit + step)


def _tolerance(site: Site) -> float:
    return headroom("op", site.place.op).max


def _errors(site: Site, actual: Array, y: Array, unit: Array | None) -> Array:
    if unit is None:
        return np.where(actual == y, 0.0, np.inf)
    with np.errstate(all="ignore"):
        errors = np.asarray(np.abs(actual - y) / as_stored(unit, y, site.place.op, site.values.dtype))
    errors[actual == y] = 0
    return np.asarray(np.where(np.isnan(errors), np.inf, errors))
