"""Wrong stretching of RoPE: frequencies by other numbers or another ramp than the configuration's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes import frequencies, llama3, yarn
from qwen3_parity.mistakes.frequencies import Rule
from qwen3_spec.site import Site

_KINDS = {"yarn": (yarn.table, yarn.FIX), "llama3": (llama3.table, llama3.FIX)}
"""By rope_type: a site's wrong tables (name, what completes "this op …", change, rank), and what is right."""


def rules(site: Site, right: Array) -> Iterator[Rule]:
    """Every rule that gives another table than `right[pair]`: those of the scaling's kind, then those of any RoPE."""
    scaling = site.config.rope_scaling
    if scaling is not None:
        table, fix = _KINDS[scaling.rope_type]
        for name, says, change, rank in table(site):
            if not np.allclose(change(right, site.config), right, rtol=1e-9, atol=0):
                yield Rule(f"{scaling.rope_type}.{name}", says, change, rank, fix)
    yield from frequencies.rules(right, site.config)
