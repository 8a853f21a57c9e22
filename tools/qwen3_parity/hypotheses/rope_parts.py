"""RoPE on some of the channels, and RoPE in narrower types; how channels are taken apart and put together."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.observed import narrowed
from qwen3_parity.hypotheses.rounding import ROUNDED
from qwen3_spec import ops
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

FIX = "x * cos + cat(-x[d/2:], x[:d/2]) * sin, after QK-norm, at the token's position"

Parts = tuple[Array, Array]


def turned(site: Site) -> tuple[Array, Array, Array]:
    """x heads first, cos and sin `[batch, 1, seq, head_dim]`, in float64."""
    x, cos, sin = (np.asarray(one, np.float64) for one in site.inputs)
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

    def kept(turns: Array, site: Site) -> Result:
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
        some = channels % pairs < count
        yield Hypothesis("rope.partial", f"turns the first {count} of {pairs} pairs alone", fix, partial(kept, some), 1)
        yield Hypothesis("rope.partial", f"leaves the first {count} of {pairs} pairs", fix, partial(kept, ~some), 2)
        yield Hypothesis("rope.partial", f"rotates the first {2 * count} channels as if they were a head", fix, partial(inside, 2 * count), 1)  # fmt: skip
    for count in range(1, min(width, 65)):
        yield Hypothesis("rope.partial", f"leaves the last {count} channels as they are", fix, partial(kept, channels < width - count), 1)  # fmt: skip
        yield Hypothesis("rope.partial", f"leaves the first {count} channels as they are", fix, partial(kept, channels >= count), 2)  # fmt: skip


def narrow() -> Iterator[Hypothesis]:
    def compute(points: str, r: Callable[[Array], Array], site: Site) -> Result:
        x, cos, sin = turned(site)
        x = np.asarray(r(x), np.float64) if "x" in points else x
        cos, sin = (np.asarray(r(t), np.float64) if "t" in points else t for t in (cos, sin))
        unit = ops.rope.unit(x, cos[:, 0], sin[:, 0])
        if "p" not in points:
            y = x * cos + ops.rope.rotate_half(x) * sin
            return narrowed(y, unit, r) if "y" in points else (y, unit)
        one = narrowed(x * cos, FLOAT32_ROUNDOFF * np.abs(x * cos), r)
        other = narrowed(ops.rope.rotate_half(x) * sin, FLOAT32_ROUNDOFF * np.abs(ops.rope.rotate_half(x) * sin), r)
        return narrowed(one[0] + other[0], unit + one[1] + other[1], r)

    for what, r in ROUNDED:
        for says, points, rank in (
            ("rounds x to {}", "x", 1), ("rounds cos and sin to {}", "t", 1), ("rounds its output to {}", "y", 1),
            ("rounds x, cos and sin to {}", "xt", 2), ("rounds inputs and output to {}", "xty", 2), ("rotates in {}", "xtp", 1),
            ("rounds products and sum to {}", "p", 2),
        ):  # fmt: skip
            yield Hypothesis(
                "rope.half_precision", says.format(what), f"{FIX}; in float32", partial(compute, points, r), rank
            )
