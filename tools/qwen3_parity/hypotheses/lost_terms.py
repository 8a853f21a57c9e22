"""Products whose sums leave out terms at one end: a rest that fills no block, or a width that was counted wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.observed import Seen
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_BLOCKS = (256, 128, 64, 32, 16, 8, 4)


def lost_terms(site: Site, what: Seen) -> Iterator[Hypothesis]:
    """The last or the first terms of every sum left out, as many of them as explain the wrong cells best."""
    x, weight = _rows(site), np.asarray(site.parameters["weight"], np.float64)
    width = x.shape[-1]
    if width < 2 or what.unit is None:
        return
    wrong = what.wrong.reshape(len(x), -1)
    rows, outputs = np.nonzero(wrong)
    products = x[rows] * weight[outputs]
    missing = (what.truth - what.actual).reshape(wrong.shape)[wrong]
    unit = what.unit.reshape(wrong.shape)[wrong]
    for end, ordered in (("last", products[:, ::-1]), ("first", products)):
        sums = np.cumsum(ordered, axis=1)[:, :-1]
        count = 1 + int(np.argmin(np.max(np.abs(missing[:, None] - sums) / unit[:, None], axis=0)))
        kept = slice(0, width - count) if end == "last" else slice(count, width)
        block = next((size for size in _BLOCKS if width % size == count), 0)
        beyond = f", those beyond the last whole block of {block}" if block and end == "last" else ""
        yield Hypothesis(
            "linear.lost_terms",
            f"leaves out the {end}{f' {count}' if count > 1 else ''} of the {width} terms of its sums{beyond}",
            f"sum over all {width} inputs, those that fill no whole block too",
            partial(_without, kept),
            1,
        )


def _rows(site: Site) -> Array:
    """The inputs of a linear as `[position, in]`."""
    x = np.asarray(site.inputs[0], np.float64)
    return x.reshape(x.shape[0] * x.shape[1], -1)


def _without(kept: slice, site: Site) -> Result:
    x = site.inputs[0]
    x = x.reshape(*x.shape[:2], -1)
    parameters = {**site.parameters, "weight": site.parameters["weight"][:, kept]}
    return OPS["linear"].truth(replace(site, inputs=(x[..., kept],), parameters=parameters))
