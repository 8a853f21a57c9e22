"""Rows that are divided by another row's root mean square: of the batch, of the position or the step before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import Key, WrongTap

_EPS = ("rms_norm_eps", "layer_norm_eps", "norm_eps", "norm_epsilon")
_ROWS = 8
"""Batch rows whose statistic may be everybody's."""


def other_statistic(taps: Sequence[WrongTap]) -> Finding | None:
    """Every wrong row of these taps is right once divided by its own statistic and not by somebody else's."""
    if any(floats(tap) is None or tap.axes[:1] != ("batch",) for tap in taps):
        return None
    ways = [[way for key in tap.reads for way in _others(tap, key)] for tap in taps]
    for words, _ in ways[0]:
        if all(
            any(_tells(tap, scale) for other, scale in some if other == words)
            for tap, some in zip(taps, ways, strict=True)
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
    axis = tap.axes.index("query")
    for row in range(min(roots.shape[0], _ROWS) if roots.shape[0] > 1 else 0):
        yield f"batch row {row}", roots / roots[row : row + 1]
    if roots.shape[axis] > 1:
        yield "the position before", roots / np.roll(roots, 1, axis)
        yield "the position behind", roots / np.roll(roots, -1, axis)
    yield "all rows together", roots / np.sqrt((roots**2).mean(keepdims=True))
    yield "its batch row", roots / np.sqrt((roots**2).mean(tuple(range(1, roots.ndim)), keepdims=True))
    if roots.ndim > 3:
        yield "all of its heads", roots / np.sqrt((roots**2).mean(tuple(range(2, roots.ndim)), keepdims=True))
    before = _statistic(tap, (key[0], key[1] - 1)) if key[1] else None
    if before is not None:
        last = before.take([-1], axis=axis)
        yield "the step before", roots / (before if before.shape == roots.shape else last)


def _statistic(tap: WrongTap, key: Key) -> Array | None:
    """The root mean square of each row of a tap that goes in, in the wrong tap's shape with 1 at the end."""
    values = tap.recorded(*key)
    shape = tap.truth.shape
    if values is None or values.dtype.kind != "f" or values.ndim < 3 or len(shape) < 3 or len(values) != shape[0]:
        return None
    if values.ndim == len(shape) - 1 and values.shape[-1] == shape[-2] * shape[-1]:
        values = values.reshape(*values.shape[:-1], *shape[-2:])  # heads side by side
    axis = tap.axes.index("query")
    if key[1] == tap.step and values.shape != shape:
        return None
    if values.ndim != len(shape) or np.delete(values.shape, axis).tolist() != np.delete(shape, axis).tolist():
        return None
    eps = next((tap.config[name] for name in _EPS if isinstance(tap.config.get(name), float)), 0.0)
    return np.asarray(np.sqrt(np.mean(np.square(values), -1, keepdims=True) + eps))
