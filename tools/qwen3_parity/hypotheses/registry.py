"""Which mistakes are thought of for which op: `LIBRARY`, the whole library of hypotheses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qwen3_parity.hypotheses import (
    beams,
    classic,
    classic_norms,
    classic_placement,
    embedding_additions,
    embeddings,
    feedforward,
    norms,
    positions,
    residuals,
    rope,
    rope_angles,
    sampling,
    tables,
    weights,
)
from qwen3_parity.hypotheses.gradients import GRADIENTS
from qwen3_parity.hypotheses.hypothesis import Hypothesis, Library
from qwen3_parity.hypotheses.observed import seen, settles
from qwen3_parity.hypotheses.registry_attention import LIBRARY as ATTENTION
from qwen3_parity.hypotheses.weight_values import unknown
from qwen3_spec.site import Site

_PLAIN: Mapping[str, tuple[Library, ...]] = {
    "rms_norm": (norms.norm, weights.other_weights),
    "head_norm": (norms.norm, weights.other_weights),
    "rope": (rope.rope,),
    "inv_freq": (tables.inv_freq,),
    "cos": (tables.table,),
    "sin": (tables.table,),
    "position_ids": (positions.positions,),
    "embedding": (classic.learned_positions, embeddings.embedding, weights.other_weights),
    "swiglu": (feedforward.swiglu,),
    "residual": (classic_placement.placement, residuals.residual),
    "linear": (classic_placement.placement, weights.linear),
    "next_token_probs": (sampling.sampling,),
    "cache": (beams.past,),
    "cache_once": (beams.past,),
    **beams.LIBRARY,
    "copy": (classic_placement.placement,),
    "layer_norm": (classic_placement.placement, classic_norms.layer_norm, weights.other_weights),
    "activation": (classic.activation,),
    "scaled_sum": (classic.scaled_sum,),
    "split_heads": (classic.split_heads,),
    **GRADIENTS,
}
_LAST: Mapping[str, tuple[Library, ...]] = {
    "linear": (unknown,),
    "rms_norm": (unknown, norms.other_statistic),
    "head_norm": (unknown, norms.other_statistic),
    "rope": (rope_angles.other_angle,),
    "embedding": (embedding_additions.added,),
}
"""Numbers that are fitted to each tap by itself: thought of when nothing else explains it."""


def _then(first: tuple[Library, ...], last: tuple[Library, ...]) -> Library:
    def library(site: Site) -> Iterator[Hypothesis]:
        what, explained = seen(site), False
        for one in first:
            for hypothesis in one(site):
                explained = explained or (what is not None and settles(site, what, hypothesis.compute(site)))
                yield hypothesis
        for one in () if explained else last:
            yield from one(site)

    return library


def _merged() -> Mapping[str, tuple[Library, ...]]:
    every = {op: _PLAIN.get(op, ()) + ATTENTION.get(op, ()) for op in (*_PLAIN, *ATTENTION)}
    return {op: (_then(found, _LAST[op]),) if op in _LAST else found for op, found in every.items()}


LIBRARY: Mapping[str, tuple[Library, ...]] = _merged()
