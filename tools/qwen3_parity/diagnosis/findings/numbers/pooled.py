"""Rows that are divided by the root mean square of many rows: of all, of their batch row, of all heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import Key, WrongTap


def pooled_statistic(taps: Sequence[WrongTap]) -> Finding | None:
    """Every wrong row of these taps is right once divided by its own statistic and not by that of many."""
    if any(floats(tap) is None or tap.axes[:1] != ("batch",) for tap in taps):
        return None
    ways = [[way for key in tap.reads for way in _others(tap, key)] for tap in taps]
    for words, _ in ways[0]:
        if all(
            any(_tells(tap, scale) for name, scale in tap_ways if name == words)
            for tap, tap_ways in zip(taps, ways, strict=True)
        ):
            says = f"each row is divided by the root mean square of {words}, not by its own"
            return Finding("norm.other_statistic", says, 1.0)
    return None


def _tells(tap: WrongTap, scale: Array) -> bool:
    scale = np.broadcast_to(scale, tap.truth.shape)
    return explained(tap, tap.truth * scale, scale) == 1


def _others(tap: WrongTap, key: Key) -> Iterator[tuple[str, Array]]:
    """Whose statistic it may be, with each row's own as a part of it."""
    roots = _statistic(tap, key) if "query" in tap.axes else None
    if roots is None:
        return
    yield "all rows together", roots / np.sqrt((roots**2).mean(keepdims=True))
    yield "its batch row", roots / np.sqrt((roots**2).mean(tuple(range(1, roots.ndim)), keepdims=True))
    if roots.ndim > 3:
        yield "all of its heads", roots / np.sqrt((roots**2).mean(tuple(range(2, roots.ndim)), keepdims=True))


def _statistic(tap: WrongTap, key: Key) -> Array | None:
    """The root mean square of each row of a tap that goes in, in the wrong tap's shape with 1 at the end."""
    values = tap.recorded(*key)
    shape = tap.truth.shape
    if values is None or values.dtype.kind != "f" or values.ndim < 3 or len(shape) < 3 or len(values) != shape[0]:
        return None
    if values.ndim == len(shape) - 1 and values.shape[-1] == shape[-2] * shape[-1]:
        values = values.reshape(*values.shape[:-1], *shape[-2:])  # heads side by side
    if values.shape != shape:
        return None
    return np.asarray(np.sqrt(np.mean(np.square(values), -1, keepdims=True) + tap.eps))
