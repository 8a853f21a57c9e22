"""Caches that decode steps read wrongly have a name: other slots, rows and layers, masks and angles without a past.

It runs `grammar.slots`, and what `grammar.masks`, `grammar.repeats` and `grammar.unturned` make of attention.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from by_taps import first_of, golden, weights

from qwen3_golden import Array

CASE, STEPS = "model/qwen3_moe", (0, 1, 2)


def recorded(layer: int, *kinds: str) -> tuple[str, ...]:
    return tuple(f"model.layers.{layer}.self_attn.{kind}" for kind in kinds)


def modules(layer: int) -> tuple[str, ...]:
    return recorded(layer, "q_norm", "k_norm", "v_proj", "o_proj")


def tap(layer: int, kind: str, step: int) -> Array:
    return golden(CASE)[f"model.layers.{layer}.self_attn.{kind}", step].values().astype(np.float64)


def spread(x: Array, heads: int) -> Array:
    """KV heads, each as often as query heads read it."""
    return np.repeat(x, heads // x.shape[1], 1)


def probs(query: Array, key: Array, visible: Array) -> Array:
    scores = query @ key.swapaxes(-1, -2) * query.shape[-1] ** -0.5
    weights = np.exp(np.where(visible, scores - scores.max(-1, keepdims=True), -np.inf))
    return weights / weights.sum(-1, keepdims=True)


def output(layer: int, step: int, key: Array, value: Array) -> Array:
    """`o_proj` of a layer that reads these keys and values."""
    query, visible = tap(layer, "query", step), tap(layer, "probs", step) > 0
    heads = query.shape[1]
    context = probs(query, spread(key, heads), visible) @ spread(value, heads)
    context = context.swapaxes(1, 2).reshape(context.shape[0], context.shape[2], -1)
    return context @ weights(CASE)[f"model.layers.{layer}.self_attn.o_proj.weight"].T


def outputs(layer: int, of: Callable[[str, int], Array]) -> dict[tuple[str, int], Array]:
    return {
        (f"model.layers.{layer}.self_attn.o_proj", step): output(layer, step, of("key", step), of("value", step))
        for step in STEPS
    }


def early(x: Array) -> Array:
    return np.concatenate([x[..., :-2, :], x[..., -1:, :], np.zeros_like(x[..., :1, :])], -2)


def paged(x: Array) -> Array:
    whole = x.shape[-2] // 2 * 2
    blocks = np.split(x[..., :whole, :], whole // 2, -2)
    return np.concatenate([blocks[-1], *blocks[:-1], x[..., whole:, :]], -2)


MOVED = [
    ("keys and values of batch row 0 for every row", lambda x: np.broadcast_to(x[:1], x.shape), "key value"),
    (
        "zeros for earlier keys and values",
        lambda x: np.concatenate([0 * x[..., :-1, :], x[..., -1:, :]], -2),
        "key value",
    ),
    ("its own keys and values a slot early, over the last of the past, and zeros behind them", early, "key value"),
    ("keys and values of the block of 2 slots before", paged, "key value"),
]


@pytest.mark.parametrize(("says", "moved", "kinds"), MOVED)
def test_slots_of_a_cache_that_are_read_wrongly_are_said(
    says: str, moved: Callable[[Array], Array], kinds: str
) -> None:
    changed = outputs(0, lambda kind, step: (moved if step and kind in kinds else np.asarray)(tap(0, kind, step)))
    assert first_of(CASE, changed, modules(0)).startswith(f"edit.slots: reads {says}")


def test_a_layer_that_reads_the_layer_befores_cache_is_said() -> None:
    changed = outputs(1, lambda kind, step: tap(0, kind, step))
    answer = first_of(CASE, changed, (*recorded(0, "k_norm", "v_proj"), *modules(1)))
    assert answer.startswith("edit.slots: reads keys and values of the layer before")


def probabilities(of: Callable[[int], Array | None]) -> dict[tuple[str, int], Array]:
    return {("model.layers.0.self_attn.probs", step): x for step in STEPS if (x := of(step)) is not None}


def test_keys_behind_whole_blocks_that_are_hidden_are_said() -> None:
    def of(step: int) -> Array:
        query, visible = tap(0, "query", step), tap(0, "probs", step) > 0
        blocks = visible & (np.arange(visible.shape[-1]) < visible.shape[-1] // 4 * 4)
        padding = ~blocks.any(-1, keepdims=True)
        return probs(query, spread(tap(0, "key", step), query.shape[1]), blocks | (padding & visible))

    answer = first_of(CASE, probabilities(of), recorded(0, "query", "key", "probs"))
    assert answer.startswith("edit.mask: hides the keys behind the last whole block of 4")


def test_kv_heads_by_their_number_for_that_of_their_copies_are_said() -> None:
    def of(step: int) -> Array:
        query, key, visible = tap(0, "query", step), tap(0, "key", step), tap(0, "probs", step) > 0
        return probs(query, key[:, np.arange(query.shape[1]) // key.shape[1] % key.shape[1]], visible)

    answer = first_of(CASE, probabilities(of), recorded(0, "query", "key", "probs"))
    assert answer.startswith("edit.repeated: reads index i // KV heads for head i")


def test_keys_that_are_turned_behind_the_cache_are_said() -> None:
    """A query and all keys by one angle are as if nothing turned."""

    def of(step: int) -> Array | None:
        query = tap(0, "q_norm", step).swapaxes(1, 2)
        every = np.concatenate([tap(0, "k_norm", before).swapaxes(1, 2) for before in range(step + 1)], 2)
        return probs(query, spread(every, query.shape[1]), tap(0, "probs", step) > 0) if step else None

    answer = first_of(CASE, probabilities(of), recorded(0, "q_norm", "k_norm", "probs"))
    assert answer.startswith("edit.rotation: keeps keys unturned in the cache, and turns all of them by the newest")


def test_what_a_router_leaves_out_of_its_weights_is_said() -> None:
    logits = golden(CASE)["model.layers.0.mlp.gate", 0].values().astype(np.float64)
    order = golden(CASE)["model.layers.0.mlp.gate[2]", 0].values()
    chosen = np.take_along_axis(logits, order, -1)
    changed = {("model.layers.0.mlp.gate[1]", 0): chosen / chosen.sum(-1, keepdims=True)}
    answer = first_of(CASE, changed, tuple(f"model.layers.0.mlp.{name}" for name in ("gate", "gate[1]", "gate[2]")))
    assert answer.startswith("edit.sibling: has the numbers of what it chose without softmax")
