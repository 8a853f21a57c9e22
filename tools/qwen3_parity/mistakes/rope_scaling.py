"""Wrong stretching of RoPE: frequencies by other numbers or another ramp than the configuration's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes import frequencies, llama3, yarn
from qwen3_parity.mistakes.frequencies import Rule
from qwen3_spec import SpecConfig
from qwen3_spec.site import Site

_KINDS = {"yarn": (yarn.table, yarn.FIX), "llama3": (llama3.table, llama3.FIX)}
_ORIGINAL = "original_max_position_embeddings"
_NUMBERS = {
    "yarn": (_ORIGINAL, "beta_fast", "beta_slow", "truncate"),
    "llama3": (_ORIGINAL, "low_freq_factor", "high_freq_factor"),
}
"""By rope_type, the numbers that its frequencies are made from, beside the factor."""
"""By rope_type: wrong tables (name, what completes "this op …", change, rank), and what is right."""


def fix(config: SpecConfig) -> str:
    """What is right of the frequencies, by the configuration's keys and numbers."""
    plain = (
        "rope_theta ** (-2 i / head_dim) for i = 0 … head_dim / 2 - 1, in float32, with rope_theta "
        f"{config.rope_theta:.10g} and head_dim {config.head_dim}"
    )
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    numbers = ", ".join(f"{key} {getattr(scaling, key):g}" for key in ("factor", *_NUMBERS[scaling.rope_type]))
    return f"{plain}; of these {_KINDS[scaling.rope_type][1]}; rope_scaling is {scaling.rope_type} with {numbers}"


def rules(config: SpecConfig, longest: int, truth: Array) -> Iterator[Rule]:
    """Every rule that gives another table than `truth[pair]`: those of the scaling's kind, then those of any RoPE.

    `longest` is max_position_embeddings.
    """
    scaling, words = config.rope_scaling, fix(config)
    if scaling is not None:
        for name, says, change, rank in _KINDS[scaling.rope_type][0](config, longest):
            if not np.allclose(change(truth, config), truth, rtol=1e-9, atol=0):
                yield Rule(f"{scaling.rope_type}.{name}", says, change, rank, words)
    yield from (replace(rule, fix=words) for rule in frequencies.rules(truth, config))


def fitted(site: Site, truth: Array, actual: Array) -> Iterator[Rule]:
    """What a whole table `actual[pair]` of wrong frequencies tells."""
    yield from (replace(rule, fix=fix(site.config)) for rule in frequencies.fitted(truth, actual, site.config))
