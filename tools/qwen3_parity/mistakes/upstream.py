"""A mistake of the op before, made in the op that reads it: folded into weights, or computed once more in one kernel.

The tap between the two is right, so that the op before is not blamed, and more taps would name less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import pattern_of
from qwen3_parity.mistakes.hypothesis import Hypothesis, Library, Mistakes
from qwen3_parity.mistakes.observed import asks_for_all, every_guess, likely, observe
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_BEFORE = frozenset({"rms_norm", "head_norm", "layer_norm", "swiglu", "activation"})
"""Ops that are folded into the next one, or computed with it in one kernel."""
_RARER = 3.5
"""How many steps rarer a plain mistake is behind a right tap: of the combined ones it is the plainest."""
_MOST = 1 << 15
"""Elements of a tap from which on that takes too long."""
_NOISE = 3.0
"""How much noisier an op is whose input was rounded on the way: it is no tap."""


def upstream(mistakes: Mapping[str, Mistakes]) -> Library:
    """The library of what is wrong with an input though its tap is right, out of every op's own `mistakes`."""

    def library(site: Site) -> Iterator[Hypothesis]:
        observed = None if asks_for_all() else observe(site)
        if observed is None or observed.actual.size > _MOST:
            return
        for slot, name in enumerate(site.names):
            before = site.values.site(name, site.step)
            if before is None or before.place.op not in _BEFORE or site.values.recorded(name, site.step) is None:
                continue
            with every_guess():
                known = [hypothesis for guesses in mistakes[before.place.op].known for hypothesis in guesses(before)]
            plain = (
                _made_here(hypothesis, slot, name)
                for hypothesis in known
                if hypothesis.rank.plain and not hypothesis.name.startswith("weight.")
            )
            with np.errstate(all="ignore"):
                yield from likely(site, observed, plain)

    return library


def _made_here(hypothesis: Hypothesis, slot: int, name: str) -> Hypothesis:
    pattern = pattern_of(name)
    short = pattern.rpartition(".")[2]
    return Hypothesis(
        hypothesis.name,
        f"reads {short} as if that {hypothesis.says}, though its tap is right: "
        "folded into the weights, or computed once more",
        f"read {pattern} as it is, and fold nothing of it into the weights that it holds itself",
        partial(_on, hypothesis, slot),
        hypothesis.rank + _RARER,
    )


def _on(hypothesis: Hypothesis, slot: int, site: Site) -> Result | None:
    if slot >= len(site.inputs):
        return None
    before = site.values.site(site.names[slot], site.step)
    wrong = None if before is None else hypothesis.compute(before)
    if wrong is None or wrong[0].shape != site.inputs[slot].shape:
        return None
    inputs = (*site.inputs[:slot], wrong[0], *site.inputs[slot + 1 :])
    y, unit = OPS[site.place.op].truth(replace(site, inputs=inputs))
    return y, None if unit is None else _NOISE * unit
