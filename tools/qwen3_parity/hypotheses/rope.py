"""Wrong RoPE: which channels are pairs, which way they turn, where they are put, by which angle, and of what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.hypothesis import Hypothesis, with_site
from qwen3_parity.hypotheses.observed import likely, seen, unit_of
from qwen3_parity.hypotheses.rope_angles import by_angles, measured
from qwen3_parity.hypotheses.rope_parts import (
    FIX,
    Parts,
    halves,
    narrow,
    neighbours,
    partly,
    side_by_side,
    turned,
    woven,
)
from qwen3_spec import ops
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

Choice = tuple[int, int, int, bool, tuple[int, int], bool]
"""Pairs, table, output (indices below), cos and sin exchanged, the signs of both parts, a pair's channels exchanged."""


# A port's choices, the right one first: the pairs, the table's channels for them, the signs, and where results go.
_PAIRS = ((halves, side_by_side), (neighbours, woven))
_TABLES: tuple[Callable[[Array], Parts], ...] = (
    halves,  # one angle for both channels of a pair
    neighbours,  # the right table, read at the channels of adjacent pairs
    lambda t: halves(np.repeat(halves(t)[0], 2, axis=-1)),  # each angle twice beside itself
)
_SIGNS: tuple[tuple[str, str, int, int], ...] = (
    ("", "", -1, 1),
    ("rope.negative_angle", "turns backwards", 1, -1),
    ("rope.sign", "adds both parts: no minus in the half turn", 1, 1),
    ("rope.sign", "subtracts both parts", -1, -1),
)
_EXCHANGED = (("", "", False), ("rope.swapped_cos_sin", "exchanges cos and sin", True))


def rope(site: Site) -> Iterator[Hypothesis]:
    """Wrong rotations."""
    what = seen(site)
    with np.errstate(all="ignore"):
        yield from likely(site, what, _rotations())
        yield from likely(site, what, _whole())
        yield from likely(site, what, by_angles(site, what))
        yield from likely(site, what, partly(site))
        yield from likely(site, what, narrow())
        yield from likely(site, what, measured(site, what))


def _rotated(x: Array, cos: Array, sin: Array, choice: Choice) -> Result:
    pairs, tables, put, swapped, (first, second), moved_first = choice
    if swapped:
        cos, sin = sin, cos
    split = _PAIRS[pairs][0]
    a, b = split(x)
    (cos_a, cos_b), (sin_a, sin_b) = _TABLES[tables](cos), _TABLES[tables](sin)
    join = _PAIRS[put][1]
    if moved_first:  # [b, a] for [-b, a]: the second half first
        a, b = b, a
    y = join(a * cos_a + first * b * sin_a, b * cos_b + second * a * sin_b)
    size = join(np.abs(a * cos_a) + np.abs(b * sin_a), np.abs(b * cos_b) + np.abs(a * sin_b))
    return y, FLOAT32_ROUNDOFF * size + 2.0**-126


def _layout_name(pairs: int, tables: int, put: int) -> tuple[str, str, int]:
    """In one name what pairs, tables and output together amount to."""
    if not (pairs or tables or put):
        return "", "", 0
    if pairs == put == 1 and tables == 0:
        return "rope.interleaved", "pairs adjacent channels (interleaved) instead of halves", 0
    names = ("halves", "adjacent channels")
    if tables == 0:
        return "rope.output_layout", f"pairs {names[pairs]} and puts the results back as {names[put]}", 1
    angles = ("", "the angles of halves", "each angle twice beside itself")[tables]
    return "rope.mixed_layout", f"pairs {names[pairs]} but reads {angles}", 1 if pairs == put else 2


def _rotations() -> Iterator[Hypothesis]:
    for pairs, tables, put in product((0, 1), range(3), (0, 1)):
        name, says, rank = _layout_name(pairs, tables, put)
        for (sign, says_sign, *signs), (swap, says_swap, swapped), moved in product(_SIGNS, _EXCHANGED, (False, True)):
            names = [one for one in (name, sign, swap, "rope.half_order" if moved else "") if one]
            texts = (says, says_sign, says_swap, "exchanges the two channels of a pair" if moved else "")
            choice = (pairs, tables, put, swapped, (signs[0], signs[1]), moved)
            if names:
                text = " and ".join(one for one in texts if one)
                compute = partial(_chosen, choice)
                yield Hypothesis(names[0], text, FIX, compute, rank + 2 * (len(names) - 1))


def _chosen(choice: Choice, site: Site) -> Result:
    return _rotated(*turned(site), choice)


def _twice(site: Site) -> Result:
    x, cos, sin = turned(site)
    once = ops.rope.forward(x, cos[:, 0], sin[:, 0])
    y = ops.rope.forward(once, cos[:, 0], sin[:, 0])
    first = ops.rope.unit(x, cos[:, 0], sin[:, 0])
    carried = np.abs(first * cos) + np.abs(ops.rope.rotate_half(first) * sin)
    return y, ops.rope.unit(once, cos[:, 0], sin[:, 0]) + carried


def _not(site: Site) -> Result:
    return turned(site)[0], np.full(turned(site)[0].shape, 2.0**-126)


def _term(which: int) -> Callable[[Site], Result]:
    def compute(site: Site) -> Result:
        x, cos, sin = turned(site)
        y = x * cos if which == 0 else ops.rope.rotate_half(x) * sin
        return y, FLOAT32_ROUNDOFF * np.abs(y) + 2.0**-126

    return compute


def _source(site: Site) -> Site | None:
    """The op that makes x: the norm, where the network has one."""
    return site.values.site(site.names[0], site.step)


def _raw(site: Site) -> Site | None:
    norm = _source(site)
    if norm is None or norm.place.op != "head_norm":
        return None
    return replace(site, inputs=(norm.inputs[0], *site.inputs[1:]))


def _normed_behind(site: Site) -> Result | None:
    """The norm after the rotation in place of before it."""
    raw, norm = _raw(site), _source(site)
    if raw is None or norm is None:
        return None
    x, unit = OPS["rope"].truth(raw)
    y = ops.rms_norm.forward(x, norm.parameters["weight"], site.config.rms_norm_eps)
    gain = np.abs(y) / np.where(x == 0, 1, np.abs(x))
    return y, ops.rms_norm.unit(y, x) + gain * unit_of((x, unit))


def _heads_as_positions(site: Site) -> Result | None:
    """cos and sin broadcast along the wrong axis: head h turned as position h."""
    x, cos, sin = turned(site)
    if cos.shape[2] != x.shape[1]:
        return None
    cos, sin = np.swapaxes(cos, 1, 2), np.swapaxes(sin, 1, 2)
    y = x * cos + ops.rope.rotate_half(x) * sin
    return y, FLOAT32_ROUNDOFF * (np.abs(x * cos) + np.abs(ops.rope.rotate_half(x) * sin)) + 2.0**-126


def _other_rows(index: Callable[[int], Array]) -> Callable[[Site], Site | None]:
    def change(site: Site) -> Site | None:
        x, cos, sin = site.inputs
        rows = index(len(cos))
        return replace(site, inputs=(x, cos[rows], sin[rows])) if len(cos) > 1 else None

    return change


def _viewed(site: Site) -> Site:
    """x viewed as heads first without the transposition."""
    x = site.inputs[0]
    heads = heads_first(x, site.config.head_dim)
    mixed = np.ascontiguousarray(np.swapaxes(heads, 1, 2)).reshape(heads.shape)
    return replace(site, inputs=(np.swapaxes(mixed, 1, 2), *site.inputs[1:]))


def _whole() -> Iterator[Hypothesis]:
    yield Hypothesis("rope.not_applied", "does not rotate", FIX, _not)
    yield Hypothesis("rope.twice", "rotates twice", FIX, _twice)
    yield Hypothesis("rope.before_norm", "rotates the projection: QK-norm is left out", FIX, with_site(_raw))
    yield Hypothesis("rope.before_norm", "normalises after the rotation, not before", FIX, _normed_behind)
    yield Hypothesis("rope.term_missing", "has x * cos alone", FIX, _term(0), 1)
    yield Hypothesis("rope.term_missing", "has rotate_half(x) * sin alone", FIX, _term(1), 1)
    yield Hypothesis("rope.heads_as_positions", "turns head h as position h", FIX, _heads_as_positions, 1)
    yield Hypothesis("rope.head_layout", "views channels as heads without exchanging axes", FIX, with_site(_viewed), 1)
    for text, index in (
        ("the first batch row's", lambda n: np.zeros(n, int)),
        ("the batch row before's", lambda n: np.arange(n) - 1),
        ("the batch row behind's", lambda n: (np.arange(n) + 1) % n),
        ("the last batch row's", lambda n: np.full(n, n - 1)),
    ):
        yield Hypothesis("rope.other_row", f"turns by {text} angles", FIX, with_site(_other_rows(index)), 1)
