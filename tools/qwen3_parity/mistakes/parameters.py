"""Other tensors of the checkpoint that an op may have been given: of another layer, stack or kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, Recording
from qwen3_parity.judge.match import PARAMETER, is_parameter
from qwen3_parity.mistakes.hypothesis import Hypothesis, OfSite
from qwen3_parity.mistakes.observed import likely, observe
from qwen3_parity.mistakes.parameter_forms import forms, fused
from qwen3_parity.mistakes.ranks import PLAIN, Rank
from qwen3_spec.site import Site

_LARGEST = float(np.finfo(np.float32).max)
_LAYER = re.compile(r"\.layers\.(\d+)\.")
Find = Callable[[Site], "str | None"]
"""The tensor that a site would be given; None where there is none."""


class Other(NamedTuple):
    """Another tensor: in words, how to find it, the rank of the mistake, and its cause, which other tensors share."""

    says: str
    find: Find
    rank: Rank
    cause: str = ""


def shapes(site: Site) -> Mapping[str, tuple[int, ...]]:
    """The shape of every parameter, from what the recordings say of them: no tensor is read."""
    listed = (site.values.golden or site.values.recording).parameters or site.values.recording.parameters
    known = {parameter.name: tuple(parameter.shape) for parameter in listed}
    return {name: known[name] if name in known else site.checkpoint[name].shape for name in site.checkpoint}


def loaded(name: str, golden: Recording | None, candidate: Recording) -> bool | None:
    """Whether the candidate's digest of a parameter is the golden's; None where nobody says it, or in another dtype."""
    expected, actual = (
        next(
            ((entry.dtype, entry.sha256) for entry in recording.parameters if entry.name == name and entry.sha256), None
        )
        if recording is not None
        else None
        for recording in (golden, candidate)
    )
    if expected is None or actual is None or (expected != actual and expected[0] != actual[0]):
        return None
    return expected == actual


def held_names(candidate: Recording) -> list[str]:
    """The parameters whose numbers a candidate's recording has."""
    return [item.info.name.removeprefix(PARAMETER) for item in candidate if is_parameter(item)]


def held_rows(name: str, candidate: Recording) -> Array | None:
    """The first rows of a parameter as the candidate holds it, `[row, …]` in float64.

    None where its recording has none, or what is no number of float32: nothing can be computed with it.
    """
    item = candidate.get(f"{PARAMETER}{name}", 0)
    rows = None if item is None or not item.is_float else np.asarray(item.values(), np.float64)
    return rows if rows is not None and bool((np.abs(rows) <= _LARGEST).all()) else None


def loaded_as_stored(site: Site) -> bool:
    """Whether the candidate's digest of the site's weight is the checkpoint's: another one was not loaded."""
    return bool(loaded((*site.place.parameters, "")[0], site.values.golden, site.values.recording))


def others(site: Site, own_name: str, size: tuple[int, ...]) -> Iterator[Other]:
    """Every tensor of `size` but `own_name`, as this layer sees it."""
    known = shapes(site)
    layers = site.config.num_hidden_layers
    here = site.place.layer
    for name, shape in known.items():
        if shape != size or name == own_name:
            continue
        match = _LAYER.search(name)
        if match is None:
            yield Other(name, _fixed(name), PLAIN + 1)
            continue
        layer = int(match.group(1))
        pattern = _LAYER.sub(".layers.{layer}.", name)
        kind = pattern.replace("{layer}", "*")
        if here is None:
            yield Other(name, _fixed(name), PLAIN + 1)
            continue
        mine = _LAYER.sub(".layers.{layer}.", own_name)
        if layer == here:
            yield Other(f"{kind} of its layer", _relative(pattern, 0, layers), PLAIN, _exchange(mine, pattern))
            continue
        by = layer - here
        text = {1: "the next layer's", -1: "the layer before's"}.get(by, f"{kind}, {by:+d} layers on:")
        rank = PLAIN + (abs(by) != 1) + (mine != pattern)
        edge = {0: "the first layer's", layers - 1: "the last layer's"}.get(layer, f"layer {layer}'s")
        ways = [
            (f"{text} {kind}", _relative(pattern, by, layers), rank, f"layers {by:+d}"),
            (f"{edge} {kind}", _fixed(name), rank + (layer not in (0, layers - 1)), f"layer {layer} for all"),
        ]
        if layer == layers - 1 - here:
            ways.append((f"{kind} of the layers in reverse order", _mirrored(pattern, layers), rank, "layers mirrored"))
        if sorted(range(layers), key=str)[here] == layer:
            says = f"{kind} of the layers sorted by name (0, 1, 10, 11, 2)"
            ways.append((says, _sorted(pattern, layers), rank, "layers sorted"))
        for says, find, rank, cause in ways:
            yield Other(says, find, rank, cause if mine == pattern else "")


def _exchange(first: str, second: str) -> str:
    """Two tensors in each other's place; or those of one stack in the other, whatever they are."""
    of, stacks = (first, second), {first.partition(".")[0], second.partition(".")[0]}
    leaves = {".".join(name.removesuffix(".weight").split(".")[-1:]) for name in of}
    return "stacks exchanged" if len(stacks) == 2 and len(leaves) == 1 else f"exchanged: {' and '.join(sorted(of))}"


def _fixed(name: str) -> Find:
    return lambda site: name if name not in site.place.parameters else None


def _relative(pattern: str, by: int, layers: int) -> Find:
    def find(site: Site) -> str | None:
        layer = (site.place.layer or 0) + by
        return pattern.format(layer=layer) if 0 <= layer < layers else None

    return find


def _mirrored(pattern: str, layers: int) -> Find:
    return lambda site: pattern.format(layer=layers - 1 - (site.place.layer or 0))


def _sorted(pattern: str, layers: int) -> Find:
    return lambda site: pattern.format(layer=sorted(range(layers), key=str)[site.place.layer or 0])


Change = Callable[[Site], "Site | None"]


def guess(name: str, says: str, fix: str, change: Change, rank: Rank, cause: str = "") -> tuple[Hypothesis, Change]:
    """A hypothesis that is the right op on a changed site, with the change."""
    return Hypothesis(name, says, fix, OfSite(change), rank, cause=cause), change


def other_tensors(site: Site) -> Iterator[Hypothesis]:
    """Wrong weights of a norm or an embedding."""
    observed = observe(site)
    with np.errstate(all="ignore"):
        yield from likely(site, observed, (hypothesis for hypothesis, _ in tensors(site)))


_LARGE = 1 << 24
"""Elements of a weight that is not tried in other forms: an embedding of a real vocabulary."""


def with_weight(site: Site, weight: Array | None, bias: Array | None = None) -> Site | None:
    """The site with another weight (and bias) of the same shape."""
    if weight is None or weight.shape != site.parameters["weight"].shape:
        return None
    parameters: Mapping[str, Array] = {**site.parameters, "weight": weight}
    if bias is not None:
        parameters = {**parameters, "bias": bias}
    return replace(site, parameters=parameters)


def _changed(compute: Callable[[Site], Array | None], site: Site) -> Site | None:
    return with_weight(site, compute(site))


def tensors(site: Site) -> Iterator[tuple[Hypothesis, Change]]:
    """Other tensors, other forms, other cuts."""
    own_name = site.place.parameters[0]
    fix = f"load {own_name} as it is stored, (out, in)"
    for says, find, rank, cause in others(site, own_name, site.parameters["weight"].shape):
        yield guess("weight.other_tensor", f"uses {says}", fix, partial(_exchanged, find), rank, cause)
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
    return with_weight(site, site.checkpoint[name], bias)


def _reformed(form: Callable[[Site, Array], Array | None], site: Site) -> Site | None:
    return with_weight(site, form(site, site.parameters["weight"]))
