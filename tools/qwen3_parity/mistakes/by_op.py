"""Which mistakes are thought of for which op: the whole library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qwen3_parity.mistakes import (
    activation,
    argmax,
    cache,
    context,
    embedding,
    head_gradient,
    inv_freq,
    layer_norm,
    linear,
    loss,
    mask,
    next_token_probs,
    norm_gradients,
    position_ids,
    residual,
    rms_norm,
    rope,
    rope_table,
    scaled_sum,
    scores,
    softmax,
    softmax_gradient,
    split_heads,
    swiglu,
)
from qwen3_parity.mistakes.as_loaded import as_loaded
from qwen3_parity.mistakes.hypothesis import Hypothesis, Library, Mistakes
from qwen3_parity.mistakes.norm_placement import placement
from qwen3_parity.mistakes.observed import observe, settles
from qwen3_parity.mistakes.ranks import FITTED
from qwen3_parity.mistakes.streams import skips
from qwen3_parity.mistakes.tails import tails
from qwen3_parity.mistakes.upstream import upstream
from qwen3_parity.mistakes.wiring import wiring
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

_FILES = (
    activation,
    argmax,
    cache,
    context,
    embedding,
    head_gradient,
    inv_freq,
    layer_norm,
    linear,
    loss,
    mask,
    next_token_probs,
    norm_gradients,
    position_ids,
    residual,
    rms_norm,
    rope,
    rope_table,
    scaled_sum,
    scores,
    softmax,
    softmax_gradient,
    split_heads,
    swiglu,
)
_MISTAKES: Mapping[str, Mistakes] = {op: mistakes for file in _FILES for op, mistakes in file.MISTAKES.items()}
_COPIED = Mistakes((placement, skips))
"""An op that computes nothing reads the wrong thing, or is none."""


_UPSTREAM = upstream(_MISTAKES)


def _libraries(mistakes: Mistakes) -> tuple[Library, ...]:
    known = (*mistakes.known, as_loaded, tails, wiring, _UPSTREAM)  # the slowest come last

    def library(site: Site) -> Iterator[Hypothesis]:
        observed, explained = observe(site), False
        for guesses in known:
            for hypothesis in guesses(site):
                explained = explained or (
                    observed is not None
                    and hypothesis.rank < FITTED
                    and settles(site, observed, hypothesis.compute(site))
                )
                yield hypothesis
        for guesses in () if explained else mistakes.fitted:
            yield from guesses(site)

    return (library,) if mistakes.fitted else known


LIBRARY: Mapping[str, tuple[Library, ...]] = {op: _libraries(_MISTAKES.get(op, _COPIED)) for op in OPS}
"""By the op of a site, the hypotheses about it."""
