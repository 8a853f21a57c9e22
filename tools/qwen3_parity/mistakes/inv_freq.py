"""Wrong frequencies of RoPE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_parity.mistakes import frequencies, rope_scaling
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.observed import likely, observe
from qwen3_spec import ops
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site


def inv_freq(site: Site) -> Iterator[Hypothesis]:
    """Wrong frequencies."""
    observed = observe(site)
    truth = OPS["inv_freq"].truth(site)[0]
    rules = list(rope_scaling.rules(site.config, site.case.config.max_position_embeddings, truth))
    if observed is not None:
        rules += rope_scaling.fitted(site, truth, np.asarray(observed.actual, np.float64))
    yield from likely(
        site, observed, (Hypothesis(r.name, r.says, r.fix, partial(_frequencies, r), r.rank) for r in rules)
    )


def _frequencies(rule: frequencies.Rule, site: Site) -> Result:
    y = np.asarray(rule.change(OPS["inv_freq"].truth(site)[0], site.config), np.float64)
    scaling = site.config.rope_scaling
    # A wrong ramp may end between pairs, which costs it more roundings.
    scaling = None if scaling is None else replace(scaling, truncate=False)
    return y, ops.inv_freq.unit(np.where(y == 0, 1, y), site.config.rope_theta, scaling)


MISTAKES: Mapping[str, Mistakes] = {"inv_freq": Mistakes((inv_freq,))}
