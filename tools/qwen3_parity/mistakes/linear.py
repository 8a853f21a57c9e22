"""Wrong parameters of linears and norms: another tensor, another form, wrong biases, values of no tensor at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.generic import Counts, casts, clamped, miscounted, scaled, softly_capped
from qwen3_parity.mistakes.gradients import cut, uses
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.linear_fitted import reordered, unknown
from qwen3_parity.mistakes.narrow_sums import narrow_sums
from qwen3_parity.mistakes.norm_placement import placement
from qwen3_parity.mistakes.observed import Observed, asks_for_all, explains, factor_between, likely, observe
from qwen3_parity.mistakes.parameters import Change, guess, others, tensors
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_parity.mistakes.rounding import NARROW
from qwen3_parity.mistakes.split_products import three_products
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site


def biases(site: Site, observed: Observed | None) -> Iterator[tuple[Hypothesis, Change]]:
    """A bias left out, added twice, of the wrong sign, of another tensor, or one that the checkpoint does not have."""

    def with_bias(find: Callable[[Site], Array | None], site: Site) -> Site | None:
        bias = find(site)
        outputs = len(site.parameters["weight"])
        if bias is None or bias.shape != (outputs,):
            return None
        return replace(site, parameters={**site.parameters, "bias": bias})

    own_bias = site.parameters.get("bias")
    if own_bias is not None:
        fix = "add the bias once"
        for name, says, times in (
            ("weight.no_bias", "adds no bias", 0),
            ("weight.bias_twice", "adds the bias twice", 2),
            ("weight.bias_negated", "subtracts the bias", -1),
        ):
            yield guess(name, says, fix, partial(with_bias, partial(_times, times)), PLAIN)
    mine = site.place.parameters[0].removesuffix("weight") + "bias"
    for text, find, rank, _ in others(site, mine, (len(site.parameters["weight"]),)):
        name = "weight.extra_bias" if own_bias is None else "weight.other_tensor"
        fix = "add the projection's own bias or none"
        yield guess(name, f"adds {text}", fix, partial(with_bias, partial(_stored, find)), rank + 1)
    if observed is not None:
        yield guess(
            "weight.extra_bias" if own_bias is None else "weight.other_bias",
            "adds the same numbers at every position: a bias that no tensor of the checkpoint holds",
            "add no bias" if own_bias is None else "add the projection's own bias",
            partial(with_bias, _fitted_bias),
            RARE + 1,
        )


def _fitted_bias(site: Site) -> Array | None:
    """The bias that the recorded numbers tell, if it is one."""
    observed = observe(site)
    if observed is None:
        return None
    wrong = observed.wrong.reshape(-1, observed.wrong.shape[-1])
    counts = wrong.sum(axis=0)
    if counts.max() < 2:
        return None  # one position tells nothing of a constant
    difference = (observed.actual - observed.truth).reshape(wrong.shape)
    fitted = np.where(wrong, difference, 0).sum(axis=0) / np.maximum(counts, 1)
    return np.asarray(fitted + site.parameters.get("bias", 0))


def _times(factor: float, site: Site) -> Array:
    return factor * site.parameters["bias"]


def _stored(find: Callable[[Site], str | None], site: Site) -> Array | None:
    name = find(site)
    return None if name is None else site.checkpoint.get(name)


def _fitted_counts(site: Site, observed: Observed) -> Iterator[tuple[str, int]]:
    """How many terms at either end of the sums explain the wrong cells best."""
    x, weight = _rows(site), np.asarray(site.parameters["weight"], np.float64)
    if x.shape[-1] < 2 or observed.unit is None:
        return
    wrong = observed.wrong.reshape(len(x), -1)
    rows, outputs = np.nonzero(wrong)
    products = x[rows] * weight[outputs]
    missing = (observed.truth - observed.actual).reshape(wrong.shape)[wrong]
    unit = observed.unit.reshape(wrong.shape)[wrong]
    for end, ordered in (("last", products[:, ::-1]), ("first", products)):
        sums = np.cumsum(ordered, axis=1)[:, :-1]
        yield end, 1 + int(np.argmin(np.max(np.abs(missing[:, None] - sums) / unit[:, None], axis=0)))


def _rows(site: Site) -> Array:
    """The inputs of a linear as `[position, in]`."""
    x = np.asarray(site.inputs[0], np.float64)
    return x.reshape(x.shape[0] * x.shape[1], -1)


def _counted(counts: Counts, site: Site) -> Result:
    x, weight = site.inputs[0], site.parameters["weight"]
    x = x.reshape(*x.shape[:2], -1)
    weight = weight * counts(weight.shape[1])
    return OPS["linear"].truth(replace(site, inputs=(x,), parameters={**site.parameters, "weight": weight}))


def _constant_added(site: Site, observed: Observed) -> Iterator[Hypothesis]:
    """One number added to every weight: what is wrong is as much as that times the sum of the inputs."""
    sums = np.broadcast_to(np.sum(np.asarray(site.inputs[0], np.float64), axis=-1, keepdims=True), observed.truth.shape)
    added = factor_between(sums[observed.wrong], (observed.actual - observed.truth)[observed.wrong])
    says = f"has {abs(added):.6g} {'added to' if added > 0 else 'taken off'} each of its weights"

    def compute(site: Site) -> Result:
        return OPS["linear"].truth(
            replace(site, parameters={**site.parameters, "weight": site.parameters["weight"] + np.float64(added)})
        )

    yield Hypothesis("weight.constant_added", says, "multiply by the weights as they are stored", compute, RARE)


def probabilities() -> Iterator[Hypothesis]:
    """Logits that went through a softmax."""
    fix = "hand on the logits themselves"
    yield Hypothesis("logits.log_softmax", "hands on log_softmax of the logits", fix, partial(_normalised, True))
    yield Hypothesis("logits.softmax", "hands on probabilities", fix, partial(_normalised, False))


def _normalised(log: bool, site: Site) -> Result:
    y, unit = OPS["linear"].truth(site)
    assert unit is not None
    peak = y.max(axis=-1, keepdims=True)
    total = np.log(np.exp(y - peak).sum(axis=-1, keepdims=True)) + peak
    if log:
        return y - total, np.hypot(unit, unit.max(axis=-1, keepdims=True)) + FLOAT32_ROUNDOFF * np.abs(total)
    p = np.exp(y - total)
    return p, p * (unit + unit.max(axis=-1, keepdims=True) + FLOAT32_ROUNDOFF * (1 + np.abs(y - peak))) + 2.0**-126


_ROWS, _OUTPUTS = 6, 96
"""Positions and output channels that a quick look takes."""


def linear(site: Site) -> Iterator[Hypothesis]:
    """Wrong weights and biases of a linear, wrong precision, and changes of its result."""
    observed = observe(site)
    with np.errstate(all="ignore"):
        small = None if observed is None else sampled(site, observed)
        yield from _quick(site, small, biases(site, observed))
        yield from _quick(site, small, tensors(site))
        width = site.parameters["weight"].shape[1]
        if small is None or observed is None:
            yield from casts(site, None, "linear.half_precision", "multiply in float32", NARROW)
            yield from three_products(site, None, "linear.half_precision")
            yield from miscounted(site, None, "linear.lost_terms", width, _counted)
            yield from narrow_sums(site, None)
            return
        part = small[0](site)
        fix = "hand on x @ weight.T as it is"
        yield from casts(part, small[1], "linear.half_precision", "multiply in float32", NARROW)
        yield from three_products(part, small[1], "linear.half_precision")
        yield from scaled(part, small[1], "weight.scaled", fix)
        yield from clamped(part, small[1], "linear.clamped", fix, (1, 10, 30, 50, 100, 65504), RARE)
        kind = "logits" if site.place.name == "logits" else "linear"
        yield from softly_capped(part, small[1], f"{kind}.softcap", fix, (30, 50, 20, 15, 10, 1))
        fitted = _fitted_counts(part, small[1])
        yield from miscounted(part, small[1], "linear.lost_terms", width, _counted, fitted)
        yield from narrow_sums(part, small[1])
        yield from likely(part, small[1], _constant_added(part, small[1]))
        if site.place.name == "logits" and (observed.actual[observed.wrong] <= 1).all():
            yield from likely(site, observed, probabilities())


Sample = tuple[Callable[[Site], Site], Observed]
"""How to cut a site down to what a quick look takes, and what was recorded there."""


def sampled(site: Site, observed: Observed) -> Sample:
    """A few wrong positions and output channels of a linear."""
    wrong = observed.wrong.reshape(-1, observed.wrong.shape[-1])
    outputs = np.flatnonzero(wrong.any(axis=0))
    outputs = outputs[:: max(1, -(-len(outputs) // _OUTPUTS))]
    rows = np.flatnonzero(wrong[:, outputs].any(axis=1))
    rows = rows[:: max(1, -(-len(rows) // _ROWS))]

    def sample(values: Array) -> Array:
        return values.reshape(-1, values.shape[-1])[np.ix_(rows, outputs)][None]

    def cut(site: Site) -> Site:
        x = site.inputs[0]
        x = x.reshape(x.shape[0] * x.shape[1], -1)[rows][None]
        parameters = {name: value[outputs] for name, value in site.parameters.items()}
        return replace(site, inputs=(x,), parameters=parameters)

    unit = None if observed.unit is None else sample(observed.unit)
    return cut, Observed(sample(observed.actual), sample(observed.truth), unit, sample(observed.wrong))


def _quick(site: Site, small: Sample | None, guesses: Iterator[tuple[Hypothesis, Change]]) -> Iterator[Hypothesis]:
    """The guesses whose changed site explains the sample."""
    for hypothesis, change in guesses:
        if small is None or asks_for_all():
            if hypothesis.rank.plain or asks_for_all():
                yield hypothesis
            continue
        changed = change(site)
        if changed is not None:
            part = small[0](changed)
            if explains(part, small[1], OPS[part.place.op].truth(part)):
                yield hypothesis


MISTAKES: Mapping[str, Mistakes] = {
    "linear": Mistakes((placement, linear), (reordered, unknown)),
    "linear_input_gradient": Mistakes((uses, cut)),
    "weight_gradient": Mistakes((uses, cut)),
    "bias_gradient": Mistakes((uses, cut)),
}
