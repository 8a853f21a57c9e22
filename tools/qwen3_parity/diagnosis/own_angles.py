"""How far a candidate's angles are from the reference's, read off its cos and sin, or off what it rotates by others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array, Recording, Tensor
from qwen3_parity.blame.values import Values
from qwen3_parity.judge.scope import Scope
from qwen3_reference.floors.own_angles import half_of, rope_tables
from qwen3_spec.angles import ULPS, ulps_off
from qwen3_spec.heads import heads_first
from qwen3_spec.site import Site

_CLEAR = 2.0**-22
"""Radians that rounding what is read does not make: angles closer than this are the same."""


@dataclass(frozen=True)
class Angles:
    """`radians`: the largest difference from the golden's angles at a `tap`, at this `position` and `pair` of channels.

    `ulps`: by how many float32 ulp another inv_freq explains it best, of that pair. `golden_tables`: the candidate says
    that it rotates by the golden's cos and sin.
    """

    tap: str
    position: int
    pair: int
    radians: float
    ulps: float
    golden_tables: bool = False

    def __str__(self) -> str:
        says = (
            f"your angles differ from the reference's by up to {self.radians:.2g} rad, at position {self.position}, "
            f"pair {self.pair} of {self.tap}, as an inv_freq that is {abs(self.ulps):.2g} ulp of float32 off does: "
        )
        if self.golden_tables:
            return says + "the run says golden_tables, but does not rotate by the golden's cos and sin; leave it unset"
        if abs(self.ulps) > ULPS:
            return says + f"more than {ULPS} ulp is no rounding: compute theta ** (-2 i / head_dim) in float32"
        return says + "libraries differ by as much, and the floors allow for it; rotate by the golden's to rule it out"


def angles_differ(values: Values, golden: Recording) -> Angles | None:
    """The largest difference of angles among the taps of the candidate in `values`; None where there is none to see."""
    angles = max(_differences(values, golden), key=lambda difference: difference.radians, default=None)
    return angles if angles is not None and angles.radians > _CLEAR else None


def _differences(values: Values, golden: Recording) -> Iterator[Angles]:
    scope, tables = Scope(golden), rope_tables(golden)
    for item in golden:
        place, actual = values.place(item.info.name), values.recording.get(*item.key)
        if place is None or actual is None or place.op not in ("cos", "rope") or actual.array.shape != item.array.shape:
            continue
        site = values.site(*item.key)
        turned = None if site is None else _turned(site, actual.values())
        if turned is None:
            continue
        judged = scope.rows(item, place)
        rows = np.ones(item.array.shape, bool) if judged is None else np.broadcast_to(judged, item.array.shape)
        yield _read(values, item, turned, rows if rows.ndim == 4 else rows[:, None], tables)


def _turned(site: Site, actual: Array) -> tuple[Array, Array, str] | None:
    """What is rotated, what became of it, both `[batch, heads, seq, head_dim]`, and the tap of the cos.

    Recorded cos and sin are a rotation of (1, 0); a rotation by recorded ones tells nothing of its own.
    """
    if site.place.op == "cos":
        sin = site.values.recorded(f"{site.place.name[:-3]}sin", site.step)
        if sin is None or sin.shape != actual.shape:
            return None
        half = actual.shape[-1] // 2
        y = np.concatenate([actual[..., :half], sin[..., :half]], axis=-1)[:, None]
        return np.broadcast_to(np.repeat([1.0, 0.0], half), y.shape), y, site.place.name
    if site.values.recorded(site.names[1], site.step) is not None:
        return None
    x = heads_first(site.inputs[0], site.config.head_dim)
    return (x, actual, site.names[1]) if x.shape == actual.shape else None


def _read(
    values: Values, item: Tensor, turned: tuple[Array, Array, str], rows: Array, tables: Mapping[tuple[str, int], Array]
) -> Angles:
    x, y, table = turned
    step = item.info.step
    halves = half_of(table)
    assert halves is not None
    prefix, encoders = halves
    positions, inv_freq = tables[f"{prefix}.{encoders}position_ids", step], tables[f"{prefix}.inv_freq", 0]
    pairs = len(inv_freq)
    cos, sin = (tables[f"{table[:-3]}{name}", step][..., :pairs].astype(np.float64) for name in ("cos", "sin"))
    a, b = (
        rotated[..., :pairs] + 1j * rotated[..., pairs:] for rotated in (x.astype(np.float64), y.astype(np.float64))
    )
    with np.errstate(all="ignore"):
        turn = np.nan_to_num(np.where(rows[..., :pairs], np.conj(a) * b, 0)).sum(axis=1)
        radians = np.where(turn == 0, 0, np.abs(np.angle(turn * (cos - 1j * sin))))
    at = np.unravel_index(int(radians.argmax()), radians.shape)
    ulps = ulps_off(x, y, positions, inv_freq.astype(np.float64), np.broadcast_to(rows, y.shape))[at[2]]
    return Angles(
        item.info.name,
        int(positions[at[:2]]),
        int(at[2]),
        float(radians[at]),
        float(ulps),
        values.recording.run.golden_tables,
    )
