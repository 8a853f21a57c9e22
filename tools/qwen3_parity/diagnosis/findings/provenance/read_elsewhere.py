"""A tap that an op reads at other places than it should: another position's, or batch row's, beside the right rest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.provenance.form import PLACE, Form, form_of
from qwen3_parity.diagnosis.findings.provenance.maps import Wording, mapped
from qwen3_parity.diagnosis.findings.wrong_tap import Key, WrongTap

_FEWEST = 3
"""Numbers of a place that tell what was read for it."""
_MOST = 1 << 24
"""Numbers that are computed to find out, in all."""
_LEAST, _PART = 0.5, 0.9
"""The share of wrong places that must be explained, and what is told where some are left."""


def read_elsewhere(tap: WrongTap) -> Finding | None:
    """Each wrong place is what it would be if one of several taps that go in were read at another place.

    All of them at another place is a right row that stands elsewhere, and said as that.
    """
    if tap.unit is None or len(tap.reads) < 2 or not tap.wrong.any():
        return None
    form = form_of(tap.axes, tap.truth.shape)
    at = np.argwhere(form.of(tap.wrong).any(axis=(2, 3)))
    many = form.of(tap.judged).sum(axis=(2, 3))[tuple(at.T)] >= _FEWEST
    if not many.all():
        return None
    for key in tap.reads:
        pairs, of = _pairs(tap, key, form, at)
        share = len(np.unique(pairs[:, 0])) / len(at)
        if share > _LEAST:
            maps = mapped(pairs, _of_all_heads(at), np.zeros(len(of), np.int64), _of_all_heads(of))
            how = Wording(form.words[:3], [*form.counts(tap.judged)[:2], 1], (), ("read", "reads"))
            says = "; ".join(how.text(held, f"what {key[0]} has in {PLACE}") for held in maps)
            return Finding("from.read_elsewhere", says, 1.0 if share == 1 else share * _PART)
    return None


def _of_all_heads(places: Array) -> Array:
    return np.pad(places, ((0, 0), (0, 1)))


def _pairs(tap: WrongTap, key: Key, form: Form, at: Array) -> tuple[Array, Array]:
    """Numbers of wrong places and of places `[place, (batch, position)]` whose row of a tap makes them."""
    pairs = list[tuple[int, int]]()
    of = list[tuple[int, ...]]()
    usual = np.sqrt(np.mean(np.square(tap.truth), axis=-1, keepdims=True))
    usual = np.where(usual > 0, usual, np.inf)
    for place, values in _everywhere(tap, key, form):
        guess = tap.again(key, values)
        if guess is None or guess.shape != tap.truth.shape:
            break
        limits = tap.limits * np.maximum(1, np.abs(guess) / usual)  # larger numbers round to more
        off = np.asarray(tap.judged & ~(np.abs(tap.actual - guess) <= limits))
        left = np.asarray(form.of(off).any(axis=(2, 3)))
        pairs += [(int(number), len(of)) for number in np.flatnonzero(~left[tuple(at.T)])]
        of.append(place)
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(of, np.int64).reshape(-1, 2)


def _everywhere(tap: WrongTap, key: Key, form: Form) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Each row of a tap, by its place, with that row at every place of the tap."""
    values, axes = tap.recorded(*key), tap.axes_of(*key)
    if values is None or values.dtype.kind != "f" or not axes:
        return
    read = form_of(axes, values.shape)
    rows = read.of(values)
    if rows.shape[:2] != form.shape[:2] or rows.shape[0] * rows.shape[1] * tap.truth.size > _MOST:
        return
    back = np.argsort(read.order)
    for place in np.ndindex(*rows.shape[:2]):
        alike = np.broadcast_to(rows[place], rows.shape)
        yield place, alike.reshape([values.shape[axis] for axis in read.order]).transpose(back)
