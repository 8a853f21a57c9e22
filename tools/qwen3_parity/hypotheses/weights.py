"""Wrong parameters of linears and norms: another tensor, another form, wrong biases, values of no tensor at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.linear_results import narrow, probabilities, results
from qwen3_parity.hypotheses.lost_terms import lost_terms
from qwen3_parity.hypotheses.observed import Seen, explains, likely, seen
from qwen3_parity.hypotheses.weight_biases import Change, biases, guess
from qwen3_parity.hypotheses.weight_choice import others
from qwen3_parity.hypotheses.weight_forms import forms, fused
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

_ROWS, _OUTPUTS = 6, 96
"""Positions and output channels that a quick look takes."""


def linear(site: Site) -> Iterator[Hypothesis]:
    """Wrong weights and biases of a linear, wrong precision, and changes of its result."""
    what = seen(site)
    with np.errstate(all="ignore"):
        small = None if what is None else sampled(site, what)
        yield from _quick(site, small, biases(site, what))
        yield from _quick(site, small, _tensors(site))
        if small is None or what is None:
            yield from (one for one in narrow() if one.rank <= 1)
            return
        part = small[0](site)
        yield from likely(part, small[1], narrow())
        yield from likely(part, small[1], results(site, small[1]))
        yield from likely(part, small[1], lost_terms(part, small[1]))
        if site.place.name == "logits" and (what.actual[what.wrong] <= 1).all():
            yield from likely(site, what, probabilities())


def other_weights(site: Site) -> Iterator[Hypothesis]:
    """Wrong weights of a norm or an embedding."""
    what = seen(site)
    with np.errstate(all="ignore"):
        yield from likely(site, what, (one for one, _ in _tensors(site)))


_LARGE = 1 << 24
"""Elements of a weight that is not tried in other forms: an embedding of a real vocabulary."""
Sample = tuple[Callable[[Site], Site], Seen]
"""How to cut a site down to what a quick look takes, and what was recorded there."""


def sampled(site: Site, what: Seen) -> Sample:
    """A few wrong positions and output channels of a linear."""
    wrong = what.wrong.reshape(-1, what.wrong.shape[-1])
    outputs = np.flatnonzero(wrong.any(axis=0))
    outputs = outputs[:: max(1, -(-len(outputs) // _OUTPUTS))]
    rows = np.flatnonzero(wrong[:, outputs].any(axis=1))
    rows = rows[:: max(1, -(-len(rows) // _ROWS))]

    def some(values: Array) -> Array:
        return values.reshape(-1, values.shape[-1])[np.ix_(rows, outputs)][None]

    def cut(site: Site) -> Site:
        x = site.inputs[0]
        x = x.reshape(x.shape[0] * x.shape[1], -1)[rows][None]
        parameters = {name: value[outputs] for name, value in site.parameters.items()}
        return replace(site, inputs=(x,), parameters=parameters)

    unit = None if what.unit is None else some(what.unit)
    return cut, Seen(some(what.actual), some(what.truth), unit, some(what.wrong))


def _quick(site: Site, small: Sample | None, guesses: Iterator[tuple[Hypothesis, Change]]) -> Iterator[Hypothesis]:
    """The guesses whose changed site explains the sample."""
    for one, change in guesses:
        if small is None:
            if one.rank <= 1:
                yield one
            continue
        changed = change(site)
        if changed is not None:
            part = small[0](changed)
            if explains(part, small[1], OPS[part.place.op].truth(part)):
                yield one


def _given(site: Site, weight: Array | None, bias: Array | None = None) -> Site | None:
    """The site with another weight (and bias) of the same shape."""
    if weight is None or weight.shape != site.parameters["weight"].shape:
        return None
    parameters: Mapping[str, Array] = {**site.parameters, "weight": weight}
    if bias is not None:
        parameters = {**parameters, "bias": bias}
    return replace(site, parameters=parameters)


def _changed(compute: Callable[[Site], Array | None], site: Site) -> Site | None:
    return _given(site, compute(site))


def _tensors(site: Site) -> Iterator[tuple[Hypothesis, Change]]:
    """Other tensors, other forms, other cuts."""
    own = site.place.parameters[0]
    fix = f"load {own} as it is stored, (out, in)"
    for says, find, rank in others(site, own, site.parameters["weight"].shape):
        yield guess("weight.other_tensor", f"uses {says}", fix, partial(_exchanged, find), rank)
    if site.parameters["weight"].size > _LARGE:
        return
    for name, says, form, rank in forms():
        yield guess(name, f"has a weight that {says}", fix, partial(_reformed, form), rank)
    for name, says, cut, rank in fused(site):
        yield guess(name, f"has a weight that {says}", fix, partial(_changed, cut), rank)


def _exchanged(find: Callable[[Site], str | None], site: Site) -> Site | None:
    """The site with another tensor of the checkpoint, and with that one's bias where both have one."""
    name = find(site)
    if name is None or name not in site.checkpoint:
        return None
    bias = site.checkpoint.get(name.removesuffix(".weight") + ".bias") if "bias" in site.parameters else None
    return _given(site, site.checkpoint[name], bias)


def _reformed(form: Callable[[Site, Array], Array | None], site: Site) -> Site | None:
    return _given(site, form(site, site.parameters["weight"]))
