"""The weight that a candidate holds in the place of the checkpoint's, where its recording has the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from qwen3_golden import pattern_of
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import asks_for_all
from qwen3_parity.mistakes.parameters import held_names, held_rows
from qwen3_parity.mistakes.ranks import COMBINED
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

AS_LOADED = "weight.as_loaded"
"""What it is called where nothing more is known of such a weight."""
LOAD = "load the checkpoint's numbers as they are stored"
"""What to do about weights that were loaded otherwise: no line of the model's is wrong."""


def as_loaded(site: Site) -> Iterator[Hypothesis]:
    """The right op on the numbers that were loaded; of a tap's own linear or norm its numbers tell more."""
    if not asks_for_all() and site.place.op != "embedding":
        return
    if _kinds(site.place.parameters) & _kinds(held_names(site.values.recording)):
        says = "computes with what it holds as its weight, which is not the checkpoint's"
        yield Hypothesis(AS_LOADED, says, LOAD, _on_held, COMBINED, cause=AS_LOADED)


def _kinds(names: Iterable[str]) -> set[str]:
    """Parameters of any layer: one that is right in a layer may be another in the next."""
    return set(map(pattern_of, names))


def _on_held(site: Site) -> Result:
    """The right op with each parameter that the recording has whole: no changed site, beside which others are tried."""
    parameters = dict(site.parameters)
    for name in site.place.parameters:
        held, kind = held_rows(name, site.values.recording), name.rpartition(".")[2]
        if held is not None and kind in parameters and held.shape == np.shape(parameters[kind]):
            parameters[kind] = held
    return OPS[site.place.op].truth(replace(site, parameters=parameters))
