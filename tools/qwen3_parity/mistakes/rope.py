"""Wrong RoPE: which channels are pairs, which way they turn, where they are put, by which angle, and of what."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes import yarn
from qwen3_parity.mistakes.generic import casts, scaled, times
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes, OfSite
from qwen3_parity.mistakes.normed import normed
from qwen3_parity.mistakes.observed import Observed, factor_between, likely, observe, unit_of
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.rope_angles import by_angles, other_angle
from qwen3_spec import ops
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit
from qwen3_spec.site import Result, Site

FIX = "x * cos + cat(-x[d/2:], x[:d/2]) * sin, after QK-norm, at the token's position"
_WITHOUT_NORM = FIX.replace(" after QK-norm,", "")

Parts = tuple[Array, Array]


def turned(site: Site) -> tuple[Array, Array, Array]:
    """x heads first, cos and sin `[batch, 1, seq, head_dim]`, in float64."""
    x, cos, sin = (np.asarray(value, np.float64) for value in site.inputs)
    return heads_first(x, site.config.head_dim), cos[:, None], sin[:, None]


def halves(x: Array) -> Parts:
    """First and second half of the channels."""
    middle = x.shape[-1] // 2
    return x[..., :middle], x[..., middle:]


def neighbours(x: Array) -> Parts:
    """Even and odd channels."""
    return x[..., ::2], x[..., 1::2]


def side_by_side(a: Array, b: Array) -> Array:
    """Halves put back."""
    return np.concatenate([a, b], axis=-1)


def woven(a: Array, b: Array) -> Array:
    """Even and odd channels put back."""
    return np.stack([a, b], axis=-1).reshape(*a.shape[:-1], -1)


def partly(site: Site) -> Iterator[Hypothesis]:
    """Only some of the channels turned: a partial rotary factor, a bound that is off."""
    width = site.config.head_dim
    pairs = width // 2

    def mixed(turns: Array, site: Site) -> Result:
        x = turned(site)[0]
        y, unit = OPS["rope"].truth(site)
        return np.where(turns, y, x), unit

    def inside(rotary: int, site: Site) -> Result:
        """The first `rotary` channels as if they were a head."""
        x, cos, sin = turned(site)
        part = slice(0, rotary // 2)
        first = side_by_side(cos[..., part], cos[..., part]), side_by_side(sin[..., part], sin[..., part])
        y = ops.rope.forward(x[..., :rotary], first[0][:, 0], first[1][:, 0])
        unit = ops.rope.unit(x[..., :rotary], first[0][:, 0], first[1][:, 0])
        return side_by_side(y, x[..., rotary:]), side_by_side(unit, np.full(x[..., rotary:].shape, 2.0**-126))

    fix = f"rotate all {width} channels of a head"
    channels = np.arange(width)
    for count in range(1, min(pairs, 65)):
        front = channels % pairs < count
        yield Hypothesis(
            "rope.partial", f"turns the first {count} of {pairs} pairs alone", fix, partial(mixed, front), PLAIN + 1
        )
        yield Hypothesis(
            "rope.partial", f"leaves the first {count} of {pairs} pairs", fix, partial(mixed, ~front), RARE
        )
        yield Hypothesis("rope.partial", f"rotates the first {2 * count} channels as if they were a head", fix, partial(inside, 2 * count), PLAIN + 1)  # fmt: skip
    for count in range(1, min(width, 65)):
        yield Hypothesis("rope.partial", f"leaves the last {count} channels as they are", fix, partial(mixed, channels < width - count), PLAIN + 1)  # fmt: skip
        yield Hypothesis("rope.partial", f"leaves the first {count} channels as they are", fix, partial(mixed, channels >= count), RARE)  # fmt: skip


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
    fix = FIX if site.config.use_qk_norm else _WITHOUT_NORM
    yield from (replace(hypothesis, fix=hypothesis.fix.replace(FIX, fix)) for hypothesis in _rope(site))


def _rope(site: Site) -> Iterator[Hypothesis]:
    observed = observe(site)
    with np.errstate(all="ignore"):
        yield from likely(site, observed, _rotations())
        yield from likely(site, observed, _whole())
        yield from likely(site, observed, by_angles(site, observed))
        yield from likely(site, observed, partly(site))
        yield from casts(site, observed, "rope.half_precision", FIX, multiplied=True)
        yield from _scaled(site, observed)


def _scaled(site: Site, observed: Observed | None) -> Iterator[Hypothesis]:
    """A factor on the rotation; where cos and sin have one, in its words."""
    fix, expected = yarn.fix_factor(site.config), site.config.attention_factor
    if observed is None or not yarn.applies(site.config):
        yield from scaled(site, observed, "rope.scaled", fix)
        return
    wrong = observed.wrong
    factor = expected * factor_between(observed.truth[wrong], observed.actual[wrong].astype(np.float64))
    every = yarn.factors(site.config, site.case.config.max_position_embeddings)
    known = [(says, value) for says, value in every if math.isclose(value, factor, rel_tol=1e-5)]
    says = f"is multiplied by {factor:.7g}, not by the attention factor {expected:.7g}"
    for words, value in (*known, (says, factor)):
        if np.isfinite(value) and value:
            guess = Hypothesis(yarn.FACTOR, words, fix, partial(times, value / expected), PLAIN + 1 if known else RARE)
            yield from likely(site, observed, [guess])


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


def _layout_name(pairs: int, tables: int, put: int) -> tuple[str, str, Rank]:
    """In one name what pairs, tables and output together amount to."""
    if not (pairs or tables or put):
        return "", "", PLAIN
    if pairs == put == 1 and tables == 0:
        return "rope.interleaved", "pairs adjacent channels (interleaved) instead of halves", PLAIN
    names = ("halves", "adjacent channels")
    if tables == 0:
        return "rope.output_layout", f"pairs {names[pairs]} and puts the results back as {names[put]}", PLAIN + 1
    angles = ("", "the angles of halves", "each angle twice beside itself")[tables]
    return "rope.mixed_layout", f"pairs {names[pairs]} but reads {angles}", PLAIN + 1 if pairs == put else RARE


def _rotations() -> Iterator[Hypothesis]:
    for pairs, tables, put in product((0, 1), range(3), (0, 1)):
        name, says, rank = _layout_name(pairs, tables, put)
        for (swap, says_swap, swapped), (sign, says_sign, *signs), moved in product(_EXCHANGED, _SIGNS, (False, True)):
            names = [part for part in (name, sign, swap, "rope.half_order" if moved else "") if part]
            texts = (says, says_sign, says_swap, "exchanges the two channels of a pair" if moved else "")
            choice = (pairs, tables, put, swapped, (signs[0], signs[1]), moved)
            if names:
                text = " and ".join(part for part in texts if part)
                compute = partial(_chosen, choice)
                rarer = names == ["rope.half_order"]  # where scores alone show it, three plain names are one mistake
                yield Hypothesis(names[0], text, FIX, compute, rank + 2 * (len(names) - 1) + rarer)


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
    y, norm_unit = normed(site, x, norm.parameters["weight"])
    gain = np.abs(y) / np.where(x == 0, 1, np.abs(x))
    return y, unit_of((y, norm_unit)) + gain * unit_of((x, unit))


def _normed_first(site: Site) -> Result | None:
    """A norm of weights 1 before the rotation, in a network that has none there."""
    if site.config.use_qk_norm:
        return None
    x, cos, sin = turned(site)
    heads, unit = normed(site, x)
    noise = unit_of((heads, unit))
    carried = np.abs(noise * cos) + np.abs(ops.rope.rotate_half(noise) * sin)
    tables = cos[:, 0], sin[:, 0]
    return ops.rope.forward(heads, *tables), ops.rope.unit(heads, *tables) + carried


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
    yield Hypothesis("rope.before_norm", "rotates the projection: QK-norm is left out", FIX, OfSite(_raw))
    yield Hypothesis("rope.before_norm", "normalises after the rotation, not before", FIX, _normed_behind)
    says = "normalises each head before it turns: a QK-norm that this network does not have"
    yield Hypothesis("rope.extra_norm", says, "rotate the projection itself", _normed_first)
    yield Hypothesis("rope.term_missing", "has x * cos alone", FIX, _term(0), PLAIN + 1)
    yield Hypothesis("rope.term_missing", "has rotate_half(x) * sin alone", FIX, _term(1), PLAIN + 1)
    yield Hypothesis("rope.heads_as_positions", "turns head h as position h", FIX, _heads_as_positions, PLAIN + 1)
    yield Hypothesis(
        "rope.head_layout", "views channels as heads without exchanging axes", FIX, OfSite(_viewed), PLAIN + 1
    )
    for text, index in (
        ("the first batch row's", lambda n: np.zeros(n, int)),
        ("the batch row before's", lambda n: np.arange(n) - 1),
        ("the batch row behind's", lambda n: (np.arange(n) + 1) % n),
        ("the last batch row's", lambda n: np.full(n, n - 1)),
    ):
        yield Hypothesis("rope.other_row", f"turns by {text} angles", FIX, OfSite(_other_rows(index)), PLAIN + 1)


def rotation(site: Site) -> Iterator[Hypothesis]:
    """The rotation forwards on the way back, or none."""
    fix = "dx = dy cos - rotate_half(dy sin)"
    says = "turns gradients forwards as RoPE turns queries and keys"
    yield Hypothesis("gradient.rope_direction", says, fix, partial(_passed_back, ops.rope.forward), everywhere=True)
    says = "passes gradients through RoPE as they are: they are not turned back"
    compute = partial(_passed_back, lambda dy, _cos, _sin: np.asarray(dy, np.float64))
    yield Hypothesis("gradient.rope_not_applied", says, fix, compute, everywhere=True)


def _passed_back(way: Callable[[Array, Array, Array], Array], site: Site) -> Result | None:
    """The gradient of what RoPE reads, `way(dy, cos, sin)` heads first."""
    if site.place.op != "head_gradient" or not site.names[0].endswith("_rope"):
        return None
    name = site.place.name.removeprefix("gradient.")
    prefix = "encoder_" if ".encoder_" in name else ""
    cos, sin = (site.values.value(f"{name.partition('.')[0]}.{prefix}{table}", 0) for table in ("cos", "sin"))
    if cos is None or sin is None:
        return None
    y = way(site.inputs[0], cos, sin)
    layout = (lambda values: np.swapaxes(values, 1, 2)) if name.endswith("_norm") else _heads_last
    return layout(y), layout(as_unit(4 * np.abs(y) + 4 * np.abs(site.inputs[0])))


def _heads_last(values: Array) -> Array:
    """`[batch, heads, seq, head_dim] -> [batch, seq, channel]`."""
    return np.swapaxes(values, 1, 2).reshape(values.shape[0], values.shape[2], -1)


MISTAKES: Mapping[str, Mistakes] = {
    "rope": Mistakes((rope,), (other_angle,)),
}
