"""Every mistake of the library that can be made in a case, with the places to make it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from detection.derived.numbers import with_numbers
from detection.derived.seed import Case, Compute, case_of
from qwen3_golden import Array
from qwen3_parity.blame.evidence import as_stored
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.mistakes import Hypothesis
from qwen3_parity.mistakes.by_op import LIBRARY
from qwen3_parity.mistakes.observed import every_guess, real
from qwen3_parity.mistakes.slot_changes import changes
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

CASES = (
    *("encoder/ragged", "decoder/plain", "encdec/ragged", "encdec/window", "decoder/window_even", "encoder/window_odd"),
    *("decoder/yarn_stated", "decoder/yarn_mscale", "decoder/ragged_decode", "encdec/qwen2", "encdec/unrotated"),
    "encdec/shorter_request",
    *("generation/sample", "generation/greedy", "generation/merged"),
    *("training/causal", "training/tied", "training/untied", "training/from_labels"),
    *("classic/bert", "classic/pre_norm", "classic/post_norm", "decoder/mask_4d", "llama/ragged_decode"),
)
"""Where mistakes are looked for, in this order: together they have every op of the table and what changes it."""
_SITES = 12
"""Sites of a place at which a mistake is tried before it is said to change nothing there."""


class Seed(NamedTuple):
    """One mistake at one place, or at every place of a group where it can be made."""

    case: str
    pattern: str
    op: str
    hypothesis: Hypothesis

    @property
    def name(self) -> str:
        """The name that the judge should give."""
        return self.hypothesis.name

    @property
    def wrong(self) -> Mapping[str, Compute]:
        """What is computed wrongly."""
        compute = partial(computed, self.hypothesis)
        if not self.hypothesis.everywhere:
            return {self.pattern: compute}
        case = case_of(self.case)
        kind = self.pattern.startswith("gradient.")
        every = [pattern for pattern in case.patterns if pattern.startswith("gradient.") == kind]
        return {pattern: compute for pattern in every if _possible(case, pattern, self.hypothesis)}


def _possible(case: Case, pattern: str, hypothesis: Hypothesis) -> bool:
    return any(computed(hypothesis, site) is not None for site in islice(case.sites(pattern), 1))


def hypotheses(site: Site) -> Iterator[Hypothesis]:
    """Every mistake that the library knows of a site's op, whatever was recorded."""
    with np.errstate(all="ignore"), every_guess():
        yield from with_numbers(site)
        for library in LIBRARY.get(site.place.op, ()):
            yield from library(site)
        for slot in range(len(site.inputs)):
            yield from (hypothesis for hypothesis, _ in changes(site, slot))


def computed(hypothesis: Hypothesis, site: Site) -> Result | None:
    """What the mistake makes of a site; None where it cannot be made, or gives what the tap cannot hold."""
    try:
        with np.errstate(all="ignore"):
            result = hypothesis.compute(site)
    except (ValueError, IndexError):  # as the judge has it: shapes that do not fit
        return None
    truth = OPS[site.place.op].truth(site)[0]
    if result is None or result[0].shape != truth.shape:
        return None
    item = site.values.golden.get(site.place.name, site.step)
    if truth.dtype.kind == "f" and (item is None or item.is_float):
        return result
    return result if np.isfinite(result[0]).all() and np.array_equal(result[0], np.round(result[0])) else None


def possible(seed: Seed) -> bool:
    """Whether the mistake can be made at one of the seed's sites."""
    sites = islice(case_of(seed.case).sites(seed.pattern), _SITES)
    return any(computed(seed.hypothesis, site) is not None for site in sites)


def shows(seed: Seed) -> bool:
    """Whether a mistake changes more than rounding may, at one of its sites, in cells that are judged."""
    sites = islice(case_of(seed.case).sites(seed.pattern), _SITES)
    return any(_differs(site, computed(seed.hypothesis, site)) for site in sites)


def _differs(site: Site, result: Result | None) -> bool:
    if result is None:
        return False
    y, unit = OPS[site.place.op].truth(site)
    if unit is None:
        wrong: Array = np.asarray(result[0] != y)
    else:
        with np.errstate(all="ignore"):
            errors = np.abs(result[0] - y) / as_stored(unit, y, site.place.op, site.values.dtype)
        wrong = ~(errors <= 2 * headroom("op", site.place.op).max) & (result[0] != y) & np.isfinite(y)
    cells = real(site)
    fits = (
        cells is not None
        and cells.ndim == wrong.ndim
        and all(cell_size in (1, size) for cell_size, size in zip(cells.shape, wrong.shape, strict=True))
    )  # a cache has the slots of earlier steps, too
    return bool((wrong & cells if cells is not None and fits else wrong).any())


@cache
def seeds(name: str) -> tuple[Seed, ...]:
    """Every mistake at every pattern of a case, each with its own words."""
    case, collected = case_of(name), list[Seed]()
    for pattern in case.patterns:
        site = next(case.sites(pattern))
        said: set[tuple[str, str]] = set()
        for hypothesis in hypotheses(site):
            if (hypothesis.name, hypothesis.says) not in said:
                said.add((hypothesis.name, hypothesis.says))
                collected.append(Seed(name, pattern, site.place.op, hypothesis))
    return tuple(collected)
