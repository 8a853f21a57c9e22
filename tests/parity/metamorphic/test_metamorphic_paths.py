"""One request along every path – at once, in chunks, token by token – and after other requests: the same answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers.cache_utils import DynamicLayer

from qwen3_encdec import masks, modeling_qwen3_decoder
from qwen3_encdec.merged_attention import Qwen3MergedAttention
from qwen3_encdec.rope import Qwen3RotaryEmbedding

Seed = Callable[[pytest.MonkeyPatch], None]
NAMES = ["rotated", "unrotated", "window", "qwen2", "causal"]


def in_chunks(length: int, size: int) -> list[int]:
    return [size] * (length // size) + ([length % size] if length % size else [])


PATHS: dict[str, Callable[[int], list[int]]] = {
    "chunks of 1": lambda length: in_chunks(length, 1),
    "chunks of 3": lambda length: in_chunks(length, 3),
    "chunks of 64": lambda length: in_chunks(length, 64),
    "prefill and 4 steps": lambda length: [length - 4, 1, 1, 1, 1],
    "prefill, a step and a chunk": lambda length: [2, 1, length - 3],
}


def at_once_from(subject: Any, path: str) -> float:
    """How far a path is from one forward over everything, logits and cache contents, in budgets."""
    request = subject.request
    steps = PATHS[path](request.target.shape[1])
    assert sum(steps) == request.target.shape[1] and min(steps) > 0
    return subject.distance(subject.answer(steps=steps), subject.answer(), subject.scope(request))


def second_from_first(subject: Any, second_request: Any) -> float:
    """How far an answer after another request to the same model is from the answer before it (any bit counts)."""
    steps = PATHS["prefill and 4 steps"](subject.request.target.shape[1])
    before = subject.answer(steps=steps)
    subject.answer(second_request, steps=[second_request.target.shape[1]])
    after = subject.answer(steps=steps)
    return max(float(np.abs(after[name] - value).max(initial=0)) for name, value in before.items())


def others(subject: Any) -> dict[str, Any]:
    """Other requests to the same model: another text, a shorter one, another source, fewer rows."""
    request = subject.request
    turned = type(request)(request.source, request.source_mask, request.target.flip(1), request.target_mask.flip(1))
    short = type(request)(request.source, request.source_mask, request.target[:, -3:], request.target_mask[:, -3:])
    source = type(request)(request.source.flip(1), request.source_mask.flip(1), request.target, request.target_mask)
    return {"text": turned, "shorter": short, "source": source, "fewer rows": request.rows([1])}


def restarted_positions(patch: pytest.MonkeyPatch) -> None:
    plain = modeling_qwen3_decoder.positions
    patch.setattr(modeling_qwen3_decoder, "positions", lambda *a: plain(*a) - a[4])


def positions_late_by_one_from_step_two(patch: pytest.MonkeyPatch) -> None:
    plain = modeling_qwen3_decoder.positions
    patch.setattr(modeling_qwen3_decoder, "positions", lambda *a: plain(*a) + (a[4] > 5))


def top_left_alignment(patch: pytest.MonkeyPatch) -> None:
    plain = masks.own_mask

    def aligned(mask: Any, batch: int, query: int, past: int, *rest: Any) -> torch.Tensor:
        additive = plain(mask, batch, query, past, *rest)
        hidden = torch.ones(additive.shape[-2:], dtype=torch.bool).triu(1)
        return additive.masked_fill(hidden, torch.finfo(additive.dtype).min) if past else additive

    patch.setattr(masks, "own_mask", aligned)


def wider_window_when_decoding(patch: pytest.MonkeyPatch) -> None:
    plain = masks._window_visible

    def widened(distance: torch.Tensor, window: int | None) -> torch.Tensor:
        return plain(distance, None if window is None else window + (distance.shape[0] == 1))

    patch.setattr(masks, "_window_visible", widened)


def forgotten_chunk(patch: pytest.MonkeyPatch) -> None:
    plain = DynamicLayer.update

    def update(self: Any, keys: torch.Tensor, values: torch.Tensor, *rest: Any, **more: Any) -> Any:
        shifted = keys.roll(1, 2) if self.get_seq_length() and keys.shape[2] > 1 else keys
        return plain(self, shifted, values, *rest, **more)

    patch.setattr(DynamicLayer, "update", update)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("path", [path for path in PATHS if path != "chunks of 64"])
@pytest.mark.parametrize("name", NAMES)
def test_every_path_gives_the_same_logits_and_caches(name: str, path: str, subject: Any) -> None:
    assert at_once_from(subject(name), path) <= 1


@pytest.mark.parametrize("path", PATHS)
def test_every_path_of_seventy_tokens_gives_the_same_logits_and_caches(path: str, subject: Any) -> None:
    assert at_once_from(subject("long"), path) <= 1


@pytest.mark.parametrize(
    ("seed", "name", "path"),
    [
        (restarted_positions, "rotated", "prefill and 4 steps"),
        (positions_late_by_one_from_step_two, "rotated", "chunks of 3"),
        (top_left_alignment, "causal", "chunks of 3"),
        (wider_window_when_decoding, "window", "prefill and 4 steps"),
        (forgotten_chunk, "unrotated", "prefill, a step and a chunk"),
    ],
)
def test_a_path_that_is_wrong_is_found(
    seed: Seed, name: str, path: str, subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch)
    assert at_once_from(subject(name), path) > 100


@pytest.mark.parametrize("kind", ["text", "shorter", "source", "fewer rows"])
@pytest.mark.parametrize("name", NAMES)
def test_a_second_request_is_as_if_it_were_the_first(name: str, kind: str, subject: Any) -> None:
    assert second_from_first(subject(name), others(subject(name))[kind]) == 0


def kept_encoder_keys(patch: pytest.MonkeyPatch) -> None:
    """Encoder keys of an earlier request are used again when they fit."""
    plain, stored = Qwen3MergedAttention.encoder_keys_values, {}

    def cached(self: Any, states: torch.Tensor, tables: Any) -> Any:
        key = (id(self), states.shape)
        earlier = stored.get(key)
        stored[key] = plain(self, states, tables)
        return earlier or stored[key]

    patch.setattr(Qwen3MergedAttention, "encoder_keys_values", cached)


def kept_tables(patch: pytest.MonkeyPatch) -> None:
    """cos and sin are kept by the shape of the positions, not by the positions."""
    plain, stored = Qwen3RotaryEmbedding.forward, {}

    def cached(self: Any, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        key = (id(self), position_ids.shape)
        earlier = stored.get(key)
        stored[key] = plain(self, x, position_ids)
        return earlier or stored[key]

    patch.setattr(Qwen3RotaryEmbedding, "forward", cached)


@pytest.mark.parametrize("seed", [kept_encoder_keys, kept_tables])
def test_what_is_left_over_from_an_earlier_request_is_found(
    seed: Seed, subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch)
    whole = subject("rotated")
    assert max(second_from_first(whole, request) for request in others(whole).values()) > 1e-2
