"""Wrong residual sums: a part left out, taken twice or scaled, another stream, narrow types."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.factors import named
from qwen3_parity.mistakes.generic import casts, clamped
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.norm_placement import placement
from qwen3_parity.mistakes.normed import normed
from qwen3_parity.mistakes.observed import Observed, factor_between, likely, observe, unit_of
from qwen3_parity.mistakes.streams import blocks
from qwen3_spec import ops
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

FIX = "stream + branch, each once: the stream is the sub-block's input before its norm"


def residual(site: Site) -> Iterator[Hypothesis]:
    """Wrong sums of stream and branch."""
    what = observe(site)
    with np.errstate(all="ignore"):
        yield from likely(site, what, _weighted(site, what))
        yield from likely(site, what, _normed())
        yield from likely(site, what, _others())
        yield from casts(site, what, "residual.half_precision", f"{FIX}; keep the stream's precision")
        yield from clamped(site, what, "residual.clamped", FIX, (65504, 1e4, 1e3, 100, 10))


def _parts(site: Site) -> tuple[Array, Array]:
    stream, branch = (np.asarray(one, np.float64) for one in site.inputs)
    return stream, branch


def _sum(a: float, b: float, site: Site) -> Result:
    stream, branch = _parts(site)
    y = a * stream + b * branch
    if not (a and b):  # a copy, times a number
        return y, FLOAT32_ROUNDOFF * np.abs(y) * (abs(a + b) != 1) + 2.0**-126
    return y, ops.residual.unit(a * stream, b * branch)


_WEIGHTS: tuple[tuple[str, str, float, float, int], ...] = (
    ("residual.missing", "is the branch alone", 0, 1, 0),
    ("residual.branch_missing", "is the stream alone", 1, 0, 0),
    ("residual.twice", "adds the stream twice", 2, 1, 0),
    ("residual.twice", "adds the branch twice", 1, 2, 0),
    ("residual.subtracted", "subtracts the branch", 1, -1, 0),
    ("residual.subtracted", "subtracts the stream", -1, 1, 1),
    ("residual.scaled", "adds half of the branch", 1, 0.5, 0),
    ("residual.scaled", "is the mean of stream and branch", 0.5, 0.5, 0),
    ("residual.scaled", "is the sum over sqrt(2)", 0.5**0.5, 0.5**0.5, 0),
    ("residual.zero", "is zero", 0, 0, 2),
)


def _weighted(site: Site, what: Observed | None) -> Iterator[Hypothesis]:
    """Stream and branch with other factors: plain ones, those of a depth, and those that the numbers tell."""
    for name, says, a, b, rank in _WEIGHTS:
        yield Hypothesis(name, says, FIX, partial(_sum, a, b), rank)
    layers = site.config.num_hidden_layers
    for text, factor in (
        ("sqrt(layers)", layers**-0.5),
        ("sqrt(2 * layers)", (2 * layers) ** -0.5),
        ("layers", 1 / layers),
    ):
        yield Hypothesis("residual.scaled", f"divides the branch by {text}", FIX, partial(_sum, 1, factor), 1)
    if what is None:
        return
    stream, branch = (one[what.wrong] for one in _parts(site))
    actual = what.actual[what.wrong].astype(np.float64)
    (a, b), *_ = np.linalg.lstsq(np.stack([stream, branch], axis=1), actual, rcond=None)
    a, b = float(a), float(b)
    factors = [(a, b)]
    if abs(a - 1) < 1e-5:
        alone = factor_between(branch, actual - stream)
        factors.insert(0, (1.0, alone))
    for one, other in factors:
        words = [named(f, site.config) or f"{f:.7g}" for f in (one, other)]
        says = f"is {words[0]} × stream + {words[1]} × branch"
        yield Hypothesis("residual.scaled", says, FIX, partial(_sum, one, other), 1)


def _norm_of(site: Site, values: Array, name: str) -> Result | None:
    """The norm of `values` by the weight of another place of the layer."""
    place = site.values.place(name)
    weight = None if place is None else site.checkpoint.get(place.parameters[0])
    if place is None or weight is None or weight.shape != values.shape[-1:]:
        return None
    return normed(site, values, weight)


def _layer_norms(site: Site) -> tuple[str, ...]:
    base = site.place.name.rpartition(".")[0]
    first, second = f"{base}.input_layernorm", f"{base}.post_attention_layernorm"
    return (first, second) if site.place.name.endswith("attn_residual") else (second, first)


def _normed() -> Iterator[Hypothesis]:
    """The stream, the branch or the sum normed by one of the layer's norms: post-norm and four-norm blocks."""

    def compute(point: str, which: int, site: Site) -> Result | None:
        stream, branch = _parts(site)
        given = {"stream": stream, "branch": branch, "sum": stream + branch}[point]
        found = _norm_of(site, given, _layer_norms(site)[which])
        if found is None:
            return None
        y, unit = found[0], unit_of(found)
        if point == "sum":
            return y, np.hypot(unit, np.abs(y) * ops.residual.unit(stream, branch) / np.maximum(np.abs(given), 1e-300))
        other = branch if point == "stream" else stream
        return y + other, np.hypot(ops.residual.unit(y, other), unit)

    for which, norm in enumerate(("the sub-block's norm", "the layer's other norm")):
        yield Hypothesis("residual.of_normed", f"adds the branch to the normed stream ({norm})", FIX, partial(compute, "stream", which), which)  # fmt: skip
        yield Hypothesis("residual.branch_normed", f"norms the branch ({norm})", FIX, partial(compute, "branch", which), 1 + which)  # fmt: skip
        yield Hypothesis("residual.sum_normed", f"norms the sum ({norm}): post-norm", FIX, partial(compute, "sum", which), 1 + which)  # fmt: skip


def _layer_input(site: Site) -> Array | None:
    return site.values.value(f"{site.place.name.rpartition('.')[0]}.input", site.step)


def _others() -> Iterator[Hypothesis]:
    def from_input(site: Site) -> Result | None:
        stream = _layer_input(site)
        return None if stream is None else OPS["residual"].truth(replace(site, inputs=(stream, site.inputs[1])))

    def with_input(site: Site) -> Result | None:
        stream = _layer_input(site)
        if stream is None:
            return None
        y, unit = OPS["residual"].truth(site)
        return y + stream, unit + ops.residual.unit(y, stream)

    def pairwise(function: Callable[[Array, Array], Array], site: Site) -> Result:
        y = function(*_parts(site))
        return y, ops.residual.unit(y, 0 * y)

    def moved(which: int, by: int, axis: int, site: Site) -> Result:
        parts = list(_parts(site))
        parts[which] = np.roll(parts[which], by, axis)
        return parts[0] + parts[1], ops.residual.unit(parts[0], parts[1])

    yield Hypothesis(
        "residual.other_stream", "starts from the layer's input again (a parallel block)", FIX, from_input, 1
    )
    yield Hypothesis("residual.other_stream", "adds the layer's input once more", FIX, with_input, 1)
    yield Hypothesis("residual.product", "multiplies stream and branch", FIX, partial(pairwise, np.multiply), 1)
    yield Hypothesis("residual.product", "takes the larger of stream and branch", FIX, partial(pairwise, np.maximum), 3)
    for which, (by, where), (axis, along) in (
        (w, b, a)
        for w in (0, 1)
        for b in ((1, "before"), (-1, "behind"))
        for a in ((0, "batch row"), (1, "token"), (2, "channel"))
    ):
        says = f"takes the {('stream', 'branch')[which]} of the {along} {where}"
        yield Hypothesis("residual.shifted", says, FIX, partial(moved, which, by, axis), 2)


MISTAKES: Mapping[str, Mistakes] = {
    "residual": Mistakes((placement, residual, blocks)),
}
