"""Wrong ways back: a use that passes nothing, a derivative that is cut short, sums over groups, factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Place
from qwen3_parity.mistakes.generic import scaled, times
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import observe
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import as_unit
from qwen3_spec.site import Result, Site

SUM = "a value that is read at several places gets the sum of what they pass back"
_PARAMETERS = ("weight_gradient", "bias_gradient", "norm_weight_gradient", "embedding_gradient")


def cut(site: Site) -> Iterator[Hypothesis]:
    """Nothing is passed back, or too much: detached, scaled, added twice."""
    says, fix = "passes nothing back: the graph is cut here", "no detach(), no no_grad(), no .data on the way"
    yield Hypothesis("gradient.cut", says, fix, _cut)
    if site.place.op in _PARAMETERS:
        says, fix = "is added twice", "zero gradients between steps; no layer may be gone back through twice"
        yield Hypothesis("gradient.twice", says, fix, partial(times, 2.0))
    fix = "divide by what was counted: labels of the whole batch, not micro-batches"
    yield from scaled(site, observe(site), "gradient.scaled", fix, RARE)


def uses(site: Site) -> Iterator[Hypothesis]:
    """One use of a value that several read passes nothing back."""
    op, count = site.place.op, len(site.inputs)
    if op in ("weight_gradient", "norm_weight_gradient") and count == 4:
        for name, part in (("encoder's states", slice(0, 2)), ("decoder's own", slice(2, 4))):
            yield _missing(f"lacks what its use on the {name} passes back", partial(_some_inputs, part))
    elif op == "bias_gradient" and count == 2:
        for name, part in (("encoder's states", slice(0, 1)), ("decoder's own", slice(1, 2))):
            yield _missing(f"lacks what its use on the {name} passes back", partial(_some_inputs, part))
    elif op == "linear_input_gradient" and count > 1:
        for index, name in enumerate(site.names):
            reader = name.rpartition(".")[2]
            yield _missing(f"lacks what {reader} passes back", partial(_without, index))
    elif op == "norm_input_gradient" and count == 3:
        yield _missing("lacks what the residual passes back", partial(_some_inputs, slice(1, None)))
        yield _missing("lacks what the branch passes back", _residual_alone)


def _missing(says: str, compute: Callable[[Site], Result | None]) -> Hypothesis:
    return Hypothesis("gradient.part_missing", says, SUM, compute, PLAIN + 1)


def _some_inputs(part: slice, site: Site) -> Result | None:
    if len(site.inputs[part]) == len(site.inputs):
        return None
    return OPS[site.place.op].truth(replace(site, inputs=site.inputs[part], names=site.names[part]))


def _cut(site: Site) -> Result:
    nothing = 0 * OPS[site.place.op].truth(site)[0]
    return nothing, as_unit(nothing)


def _without(index: int, site: Site) -> Result | None:
    if index >= len(site.inputs):
        return None
    remaining = [i for i in range(len(site.inputs)) if i != index]
    assert isinstance(site.place, Place)
    place = replace(site.place, parameters=tuple(site.place.parameters[i] for i in remaining))
    return OPS[place.op].truth(replace(site, place=place, inputs=tuple(site.inputs[i] for i in remaining)))


def _residual_alone(site: Site) -> Result | None:
    if len(site.inputs) != 3:
        return None
    return np.asarray(site.inputs[0], np.float64), as_unit(np.abs(site.inputs[0]))
