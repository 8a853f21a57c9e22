"""Wrong biases of linears: left out, twice, another tensor's, or one that the checkpoint does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.hypothesis import Hypothesis, with_site
from qwen3_parity.hypotheses.observed import Seen, seen
from qwen3_parity.hypotheses.weight_choice import others
from qwen3_spec.site import Site

Change = Callable[[Site], "Site | None"]


def guess(name: str, says: str, fix: str, change: Change, rank: int) -> tuple[Hypothesis, Change]:
    """A hypothesis that is the right op on a changed site, with the change."""
    return Hypothesis(name, says, fix, with_site(change), rank), change


def biases(site: Site, what: Seen | None) -> Iterator[tuple[Hypothesis, Change]]:
    """A bias left out, added twice, of the wrong sign, of another tensor, or one that the checkpoint does not have."""

    def with_bias(find: Callable[[Site], Array | None], site: Site) -> Site | None:
        bias = find(site)
        outputs = len(site.parameters["weight"])
        if bias is None or bias.shape != (outputs,):
            return None
        return replace(site, parameters={**site.parameters, "bias": bias})

    own = site.parameters.get("bias")
    if own is not None:
        fix = "add the bias once"
        for name, says, times in (
            ("weight.no_bias", "adds no bias", 0),
            ("weight.bias_twice", "adds the bias twice", 2),
            ("weight.bias_negated", "subtracts the bias", -1),
        ):
            yield guess(name, says, fix, partial(with_bias, partial(_times, times)), 0)
    mine = site.place.parameters[0].removesuffix("weight") + "bias"
    for text, find, rank in others(site, mine, (len(site.parameters["weight"]),)):
        name = "weight.extra_bias" if own is None else "weight.other_tensor"
        fix = "add the projection's own bias or none"
        yield guess(name, f"adds {text}", fix, partial(with_bias, partial(_stored, find)), rank + 1)
    if what is not None:
        yield guess(
            "weight.extra_bias" if own is None else "weight.other_bias",
            "adds the same numbers at every position: a bias that no tensor of the checkpoint holds",
            "add no bias" if own is None else "add the projection's own bias",
            partial(with_bias, _told_bias),
            3,
        )


def _told_bias(site: Site) -> Array | None:
    """The bias that the recorded numbers tell, if it is one."""
    what = seen(site)
    if what is None:
        return None
    wrong = what.wrong.reshape(-1, what.wrong.shape[-1])
    counts = wrong.sum(axis=0)
    if counts.max() < 2:
        return None  # one position tells nothing of a constant
    difference = (what.actual - what.truth).reshape(wrong.shape)
    told = np.where(wrong, difference, 0).sum(axis=0) / np.maximum(counts, 1)
    return np.asarray(told + site.parameters.get("bias", 0))


def _times(factor: float, site: Site) -> Array:
    return factor * site.parameters["bias"]


def _stored(find: Callable[[Site], str | None], site: Site) -> Array | None:
    name = find(site)
    return None if name is None else site.checkpoint.get(name)
