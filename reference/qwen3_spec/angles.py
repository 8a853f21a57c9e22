"""The angles of honest engines: position × inv_freq, exact or rounded once to float32, of a frequency a few ulp off."""

from collections.abc import Iterator

import numpy as np

from qwen3_spec.arithmetic import Array
from qwen3_spec.rounding import FLOAT32_ROUNDOFF

ULPS = 8
"""How many float32 ulp a frequency that nobody recorded may be off: what a recorded one is allowed."""


def honest_angles(positions: Array, inv_freq: Array, wide: Array, *, recorded: bool) -> Iterator[Array]:
    """The angles `[batch, seq, pair]` that an engine may have: its product in float32 first, then the exact one.

    Then both of the `wide` frequencies in float64, where `inv_freq` is those rounded to float32; then the quotient of
    the position by theta^k, a float32 number of which inv_freq is the inverse. A frequency that is not `recorded` may
    be up to `ULPS` off.
    """
    near = inv_freq.astype(np.float32)
    step = np.spacing(near).astype(np.float64)
    ids = positions[..., None].astype(np.float64)
    yield _rounded(ids * near)
    yield ids * inv_freq.astype(np.float64)
    meant = np.where(np.abs(wide - near) <= step, wide, inv_freq)
    yield ids * meant
    yield _rounded(ids * meant)
    for ulps in (0, -1, 1) if recorded else range(-ULPS, ULPS + 1):
        period = (1 / near.astype(np.float64)).astype(np.float32)
        yield _rounded(ids / (period + ulps * np.spacing(period).astype(np.float64)))
    for ulps in () if recorded else range(-ULPS, ULPS + 1):
        moved = near.astype(np.float64) + ulps * step
        yield _rounded(ids * moved)
        yield ids * moved


def _rounded(angles: Array) -> Array:
    return angles.astype(np.float32).astype(np.float64)


def nearest_table(actual: Array | None, which: int, angles: Iterator[Array], factor: float) -> Array:
    """The cos (`which` 0) or sin (1) `[batch, seq, head_dim]` of the angles that are nearest to `actual`, pair by pair.

    The pairs stand twice in a row and are multiplied by `factor`, YaRN's. Without `actual`, or where that has another
    shape, the first angles' own.
    """
    function = np.sin if which else np.cos
    best = least = None
    for angle in angles:
        table = factor * np.concatenate([function(angle)] * 2, axis=-1)
        if actual is None or actual.shape != table.shape:
            return np.asarray(table)
        with np.errstate(all="ignore"):
            error = np.abs(actual - table).max(axis=tuple(range(table.ndim - 1)), initial=0)
        error = np.maximum(*np.split(error, 2))  # of a pair, not of a channel
        if best is None or least is None:
            best, least = table, error
        better = np.concatenate([error < least] * 2)
        best, least = np.where(better, table, best), np.fmin(least, error)
        if (least <= abs(factor) * FLOAT32_ROUNDOFF).all():
            break
    assert best is not None
    return best


def ulps_off(x: Array, y: Array, positions: Array, inv_freq: Array, judged: Array) -> Array:
    """By how many float32 ulp inv_freq is larger in a rotation of `x` to `y`, `[pair]`; 0 where nothing says so.

    `x`, `y` are `[batch, heads, seq, head_dim]`, `judged` is bool of their shape; the least squares over all heads and
    positions, of what is left of each pair's turn behind `positions` × `inv_freq`.
    """
    a, b = (part[..., : len(inv_freq)] + 1j * part[..., len(inv_freq) :] for part in (x.astype(np.float64), y))
    with np.errstate(all="ignore"):
        turn = np.nan_to_num(np.where(judged[..., : len(inv_freq)], np.conj(a) * b, 0)).sum(axis=1)
        ids = positions[..., None].astype(np.float64)
        left = np.angle(turn * np.exp(-1j * ids * inv_freq))
        weight = np.abs(turn) * ids
        slope = (weight * left).sum(axis=(0, 1)) / (weight * ids).sum(axis=(0, 1))
    step = np.spacing(inv_freq.astype(np.float32)).astype(np.float64)
    return np.asarray(np.nan_to_num(slope / step, posinf=0, neginf=0))


def close_unit(shape: tuple[int, ...], factor: float) -> Array:
    """The rounding unit of cos and sin of a given angle: one rounding, and another one by a factor."""
    roundings = 1 if factor == 1 else 2
    return np.full(shape, abs(factor) * roundings * FLOAT32_ROUNDOFF)
