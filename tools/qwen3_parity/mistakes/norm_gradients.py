"""Wrong ways back through RMSNorm: a term, a weight or a root that is left out, doubled or of something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.formulas import Formula, inputs
from qwen3_parity.mistakes.generic import BLOCKS
from qwen3_parity.mistakes.gradients import cut, uses
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.observed import asks_for_all
from qwen3_parity.mistakes.ranks import PLAIN, Rank
from qwen3_spec.heads import split_heads
from qwen3_spec.ops.linear import pairs
from qwen3_spec.site import Site

_FIX = "dx = (dn - n mean(dn n)) / root, dn = weight dy, n = x / root"
_WEIGHT_FIX = "dweight = sum over tokens of dy n, n = x / root"
_OF_STREAM = frozenset({"embed_tokens", "output", "attn_residual"})
"""What the gradients of what a block's norms read are called."""
_Way = Callable[[Array, Array, Array, Array], Array]
"""Of dy, weight, x (all `[..., n]`) and root `[..., 1]`: the gradient by x, or what the weight's sums over tokens."""


def _mean(x: Array) -> Array:
    return np.asanyarray(np.mean(x, axis=-1, keepdims=True))


def _derived(dy: Array, weight: Array, x: Array, root: Array) -> Array:
    return np.asanyarray((weight * dy - x * _mean(weight * dy * x / root) / root) / root)


def _by_variance(dy: Array, weight: Array, x: Array, root: Array) -> Array:
    return _derived(dy, weight, x, 1 / _mean(x * x))


def _partly(block: int, end: str, dy: Array, weight: Array, x: Array, root: Array) -> Array:
    """A mean term whose sum is over one end of the channels; `last`: those behind the last whole block."""
    width = x.shape[-1]
    part = slice(block) if end == "first" else slice((width - 1) // block * block, None)
    mean = (weight * dy * x / root)[..., part].sum(axis=-1, keepdims=True) / width
    return np.asanyarray((weight * dy - x * mean / root) / root)


_BY_INPUT: tuple[tuple[str, str, Rank, _Way], ...] = (
    ("norm_mean", "takes the root mean square of RMSNorm for a constant: the mean term is missing", PLAIN,
     lambda dy, w, x, root: w * dy / root),
    ("norm_weight", "leaves out RMSNorm's weight", PLAIN, lambda dy, w, x, root: _derived(dy, 1 + 0 * w, x, root)),
    ("norm_weight", "leaves out the weight in RMSNorm's mean term", PLAIN + 1,
     lambda dy, w, x, root: (w * dy - x * _mean(dy * x / root) / root) / root),
    ("norm_weight", "has the weight twice in RMSNorm's mean term", PLAIN + 1,
     lambda dy, w, x, root: (w * dy - x * _mean(w * w * dy * x / root) / root) / root),
    ("norm_weight", "multiplies RMSNorm's mean term by the weight, too", PLAIN + 1,
     lambda dy, w, x, root: (w * dy - w * x * _mean(w * dy * x / root) / root) / root),
    ("norm_weight", "has the weight twice", PLAIN + 1, lambda dy, w, x, root: _derived(dy, w * w, x, root)),
    ("norm_mean", "adds RMSNorm's mean term", PLAIN + 1,
     lambda dy, w, x, root: (w * dy + x * _mean(w * dy * x / root) / root) / root),
    ("norm_mean", "takes a sum where RMSNorm's mean term has a mean", PLAIN + 1,
     lambda dy, w, x, root: (w * dy - x * x.shape[-1] * _mean(w * dy * x / root) / root) / root),
    ("norm_mean", "has x where RMSNorm's mean term has x / root", PLAIN + 1,
     lambda dy, w, x, root: (w * dy - x * _mean(w * dy * x)) / root),
    *(("norm_mean", f"adds up RMSNorm's mean term over the {end} block of {block} channels alone", PLAIN + 1,
       partial(_partly, block, end)) for block in BLOCKS for end in ("first", "last")),
    ("norm_root", "has the mean square where 1 / root belongs", PLAIN + 1, _by_variance),
    ("norm_root", "has root where 1 / root belongs", PLAIN + 1, lambda dy, w, x, root: _derived(dy, w, x, 1 / root)),
    ("norm_root", "leaves out the last division by root", PLAIN + 1,
     lambda dy, w, x, root: _derived(dy, w, x, root) * root),
)  # fmt: skip
_BY_WEIGHT: tuple[tuple[str, str, Rank, _Way], ...] = (
    ("norm_input", "multiplies by RMSNorm's input as it is, not normed", PLAIN, lambda dy, w, x, root: dy * x),
    ("norm_weight", "multiplies by RMSNorm's output, the weight in it, not by x / root", PLAIN + 1,
     lambda dy, w, x, root: w * dy * x / root),
    ("norm_overwritten", "reads the gradient by x where that of the output belongs: a buffer that was overwritten",
     PLAIN + 1, lambda dy, w, x, root: _derived(dy, w, x, root) * x / root),
    ("norm_root", "has the mean square where 1 / root belongs", PLAIN + 1,
     lambda dy, w, x, root: dy * x * _mean(x * x)),
    ("norm_root", "has root where 1 / root belongs", PLAIN + 1, lambda dy, w, x, root: dy * x * root),
)  # fmt: skip


def by_input(site: Site) -> Iterator[Hypothesis]:
    """Other derivatives by the norm's input, of the stream and of heads; in a group, of the stream alone as well."""
    for name, says, rank, way in _BY_INPUT:
        formula = Formula(partial(_by_input, way))
        yield Hypothesis(f"gradient.{name}", says, _FIX, formula, rank, everywhere=True)
        if asks_for_all() and site.place.op == "norm_input_gradient":
            of_stream = f"{says}, in the norms of the stream and not in QK-norm"
            yield Hypothesis(f"gradient.{name}", of_stream, _FIX, formula, rank + 0.5, leaves=_OF_STREAM)
    if site.place.op == "norm_input_gradient" and len(site.inputs) > 2:
        says = "sends the residual's gradient through the norm, too"
        yield Hypothesis("gradient.skip_normed", says, _FIX, Formula(_skip_normed), PLAIN + 1)


def by_weight(site: Site) -> Iterator[Hypothesis]:
    """Other derivatives by the norm's weight."""
    for name, says, rank, way in _BY_WEIGHT:
        formula = Formula(partial(_by_weight, way))
        yield Hypothesis(f"gradient.{name}", says, _WEIGHT_FIX, formula, rank, everywhere=True)


def _root(site: Site, x: Array) -> Array:
    return np.asanyarray(np.sqrt(_mean(x * x) + site.config.rms_norm_eps))


def _by_input(way: _Way, site: Site) -> Array | None:
    if site.place.op == "norm_input_gradient":
        *skip, dy, x = inputs(site)
        weight = np.asarray(site.checkpoint[site.place.parameters[0]], np.float64)
        return np.asanyarray(np.add(sum(skip), way(dy, weight, x, _root(site, x))))
    if site.place.op != "head_gradient" or not site.names[0].endswith("_norm"):
        return None
    name = site.place.name.removeprefix("gradient.").replace("encoder_k_proj", "k_proj").replace("_proj", "_norm")
    dy, x = inputs(site)
    heads = split_heads(x, site.config.head_dim)
    weight = np.asarray(site.checkpoint[f"{name}.weight"], np.float64)
    return np.asanyarray(way(dy, weight, heads, _root(site, heads)).reshape(x.shape))


def _skip_normed(site: Site) -> Array | None:
    """The way back of a norm whose output goes on as the residual, of all that comes back to both."""
    if site.place.op != "norm_input_gradient" or len(site.inputs) < 3:
        return None
    *skip, dy, x = inputs(site)
    weight = np.asarray(site.checkpoint[site.place.parameters[0]], np.float64)
    return _derived(np.asanyarray(sum(skip) + dy), weight, x, _root(site, x))


def _by_weight(way: _Way, site: Site) -> Array | None:
    if site.place.op != "norm_weight_gradient":
        return None
    weight = np.asarray(site.checkpoint[site.place.name.removeprefix("gradient.")], np.float64)
    terms = []
    for dy, x in pairs(site):
        rows = np.asanyarray(x, np.float64).reshape(dy.shape)
        terms.append(way(np.asanyarray(dy, np.float64), weight, rows, _root(site, rows)).reshape(-1, dy.shape[-1]))
    return np.asanyarray(np.concatenate(terms).sum(axis=0), np.float64)


MISTAKES: Mapping[str, Mistakes] = {
    "norm_input_gradient": Mistakes((by_input, uses, cut)),
    "norm_weight_gradient": Mistakes((by_weight, uses, cut)),
}
