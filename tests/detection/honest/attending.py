"""Having our model attend with other parts: the attention function is exchanged, and what it makes is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from detection.honest.ours import Change, Patch
from qwen3_encdec.attention import probabilities, scaled_scores, weighted_values
from qwen3_parity.recording.ours.network import EncoderDecoder
from qwen3_reference.capture.recorded_attention import recording_attention

Tensor = torch.Tensor
Scores = Callable[[Tensor, Tensor, float], Tensor]
"""`(query, key, scaling)`, `[batch, heads, query, dim]` and `[batch, kv_heads, key, dim]`, to scores."""
Softmax = Callable[[Tensor, Tensor], Tensor]
"""`(scores, additive mask)` to probabilities, both `[batch, heads, query, key]`."""
Context = Callable[[Tensor, Tensor], Tensor]
"""`(probs, value)`, `[batch, kv_heads, key, dim]`, to `[batch, query, heads, dim]`."""


def groups_of(heads: Tensor, shared: Tensor) -> int:
    """How many query heads each KV head serves."""
    return heads.shape[1] // shared.shape[1]


def our_scores(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    """As the implementation has them."""
    return scaled_scores(query, key, scaling, groups_of(query, key))


def our_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """As the implementation has it."""
    return probabilities(scores, mask, scores.dtype)


def our_context(probs: Tensor, value: Tensor) -> Tensor:
    """As the implementation has it."""
    return weighted_values(probs, value, groups_of(probs, value))


def attention(
    name: str, *, scores: Scores = our_scores, softmax: Softmax = our_softmax, context: Context = our_context
) -> Change:
    """The change that has a model attend with these parts."""

    def attend(
        _module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, **_more: Any
    ) -> tuple[Tensor, Tensor]:
        probs = softmax(scores(query, key, scaling), mask)
        return context(probs, value), probs

    return attending(name, attend, scores)


def attending(
    name: str, attend: Callable[..., Any], scores: Scores = our_scores, *, materialise: bool = True
) -> Change:
    """The change that has a model attend with this function; its scores are made once more to be recorded."""

    def change(runner: EncoderDecoder) -> Iterable[Patch]:
        recording_attention(f"honest_{name}", attend, materialise=materialise, scores=scores)
        runner.model.set_attn_implementation(f"honest_{name}")
        return ()

    return change
