"""A quick look at a few rows, before a guess about a large op is worth computing in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import as_stored
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.mistakes.layouts import sequence_axis
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

_ROWS = 24
_COLUMNS = 96

Screen = Callable[[Site], bool]
"""Whether a changed site may reproduce the wrong cells of the recorded one."""


def screen(site: Site) -> Screen | None:
    """A screen for changes of a site; None where its tap was not recorded (a place inside a group)."""
    actual = site.values.recorded(site.place.name, site.step)
    if actual is None or actual.dtype.kind != "f":
        return None if actual is None else lambda changed: True
    columns = _columns(site)
    try:
        rows = _rows(site, actual)
        part = _output(actual, site, rows, columns)
    except IndexError:  # another shape than the tap's
        return lambda changed: True
    wrong = _wrong(site, rows, columns, part)
    if wrong is None:
        return lambda changed: True

    def passes(changed: Site) -> bool:
        if changed.place.op != site.place.op:
            return True
        errors = _errors(changed, rows, columns, part)
        if errors is None:
            return False
        return bool(np.mean(errors[wrong] <= headroom("op", site.place.op).max) > 0.9)

    return passes


def _rows(site: Site, actual: Array) -> Array | None:
    """A few positions, None for all of them."""
    axis = sequence_axis(site.place.axes)
    if not OPS[site.place.op].by_row or axis is None or actual.shape[axis] <= _ROWS:
        return None
    return np.unique(np.linspace(0, actual.shape[axis] - 1, _ROWS).round().astype(int))


def _columns(site: Site) -> Array | None:
    """A few outputs of a linear, None for all of them."""
    if site.place.op != "linear" or site.parameters["weight"].shape[0] <= _COLUMNS:
        return None
    return np.unique(np.linspace(0, site.parameters["weight"].shape[0] - 1, _COLUMNS).round().astype(int))


def _output(actual: Array, site: Site, rows: Array | None, columns: Array | None) -> Array:
    axis = sequence_axis(site.place.axes)
    if rows is not None and axis is not None:
        actual = actual.take(rows, axis=axis)
    return actual if columns is None else actual[..., columns]


def _cut(site: Site, rows: Array | None, columns: Array | None) -> Site:
    inputs = site.inputs
    if rows is not None:
        inputs = tuple(tap.take(rows, axis=_axis(site, name)) for tap, name in zip(inputs, site.names, strict=False))
    parameters: Mapping[str, Array] = site.parameters
    if columns is not None:
        parameters = {name: value[columns] for name, value in parameters.items()}
    return replace(site, inputs=inputs, parameters=parameters)


def _axis(site: Site, name: str) -> int:
    place = site.values.place(name)
    axis = None if place is None else sequence_axis(place.axes)
    return 1 if axis is None else axis


def _errors(site: Site, rows: Array | None, columns: Array | None, part: Array) -> Array | None:
    try:
        with np.errstate(all="ignore"):
            y, unit = OPS[site.place.op].truth(_cut(site, rows, columns))
    except (ValueError, IndexError):
        return None
    if y.shape != part.shape:
        return None
    if unit is None:
        return np.where(part == y, 0.0, np.inf)
    with np.errstate(all="ignore"):
        errors = np.abs(part - y) / as_stored(unit, y, site.place.op, site.values.dtype)
    errors = np.where(part == y, 0.0, errors)
    return np.asarray(np.where(np.isnan(errors), np.inf, errors))


def _wrong(site: Site, rows: Array | None, columns: Array | None, part: Array) -> Array | None:
    """The wrong cells among those that are looked at; None without one."""
    errors = _errors(site, rows, columns, part)
    if errors is None:
        return None
    wrong = errors > headroom("op", site.place.op).max
    real = _real(site, rows, part)
    if real is not None and (wrong & real).any():
        wrong &= real
    return wrong if wrong.any() else None


def _real(site: Site, rows: Array | None, part: Array) -> Array | None:
    """The cells of positions that are no padding, broadcast to the tap."""
    axes = site.place.axes
    axis = sequence_axis(axes)
    encoder = site.stack == "encoder" or "encoder_" in site.place.name.rpartition(".")[2]
    real = site.values.recorded(f"input.{'encoder' if encoder else 'decoder'}_attention_mask", 0)
    if real is None or axis is None or axes[0] != "batch":
        return None
    real = real.astype(bool)
    if axes[axis] == "query":
        stop = real.shape[1] if encoder else site.stop
        real = real[:, stop - site.length : stop]
    real = real if rows is None else real[:, rows]
    shape = [1] * part.ndim
    shape[0], shape[axis] = real.shape
    if part.shape[0] != real.shape[0] or part.shape[axis] != real.shape[1]:
        return None
    return np.asarray(np.broadcast_to(real.reshape(shape), part.shape))
