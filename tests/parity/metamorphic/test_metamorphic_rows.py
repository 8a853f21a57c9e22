"""Rows of a batch do not know of one another: alone, in another order, or beside rows that have already ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from qwen3_encdec import masks, merged_attention, modeling_qwen3_decoder, modeling_qwen3_encoder

Seed = Callable[[pytest.MonkeyPatch], None]
NAMES = ["rotated", "unrotated", "window", "qwen2", "causal"]


def alone_from_batch(subject: Any) -> float:
    """How far each row alone is from the same row in its padded batch, in budgets."""
    request, whole = subject.request, subject.answer()
    rows = range(len(request.target))
    return max(subject.distance(subject.answer(request.alone(row)), subject.row(whole, request, row)) for row in rows)


def permuted_from_plain(subject: Any, order: list[int]) -> float:
    """How far the answer to permuted rows is from the permuted answer, in budgets."""
    request = subject.request.rows(order)
    expected = {name: value[order] for name, value in subject.answer().items()}
    return subject.distance(subject.answer(request), expected, subject.scope(request))


def ends_of(subject: Any) -> list[int]:
    """Another end for each row: the last one runs to the end, the others stop two steps earlier each."""
    rows, length = subject.request.target.shape
    return [length - 2 * (rows - 1 - row) for row in range(rows)]


def alone_from_ragged_decode(subject: Any) -> float:
    """How far each row decoded alone, to its own end, is from a decode in which rows end at different steps."""
    request = subject.request.until(ends_of(subject))
    prompt = request.target.shape[1] - 6
    whole = subject.answer(request, [prompt] + [1] * 6)
    worst = 0.0
    for row in range(len(request.target)):
        single = request.alone(row)
        lone = subject.answer(single, [2] + [1] * (single.target.shape[1] - 2))
        worst = max(worst, subject.distance(lone, subject.row(whole, request, row)))
    return worst


def slots_for_positions(patch: pytest.MonkeyPatch) -> None:
    def counted(
        position_ids: Any, mask: Any, batch: int, length: int, past: int, name: str, device: Any
    ) -> torch.Tensor:
        return torch.arange(past, past + length, device=device).expand(batch, -1)

    patch.setattr(modeling_qwen3_decoder, "positions", counted)


def visible_padding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(masks, "padding_visible", lambda mask, name, shape: torch.ones(shape, dtype=torch.bool))


def visible_own_padding(patch: pytest.MonkeyPatch) -> None:
    plain = masks.padding_visible

    def shown(mask: torch.Tensor, name: str, shape: tuple[int, int]) -> torch.Tensor:
        visible = plain(mask, name, shape)
        return torch.ones_like(visible) if name.startswith("decoder") else visible

    patch.setattr(masks, "padding_visible", shown)


def memory_of_another_row(patch: pytest.MonkeyPatch) -> None:
    plain = merged_attention.encoder_keys_values

    def neighbours(cache: Any, layer: int) -> tuple[torch.Tensor, ...]:
        return tuple(x[[0, 0, 1][: len(x)]] for x in plain(cache, layer))

    patch.setattr(merged_attention, "encoder_keys_values", neighbours)


def position_of_the_first_row(patch: pytest.MonkeyPatch) -> None:
    plain = modeling_qwen3_decoder.positions
    patch.setattr(modeling_qwen3_decoder, "positions", lambda *a: plain(*a)[:1].expand(a[2], -1))


def mask_of_the_first_row(patch: pytest.MonkeyPatch) -> None:
    plain = modeling_qwen3_encoder.encoder_mask
    patch.setattr(modeling_qwen3_encoder, "encoder_mask", lambda *a: plain(*a)[:1].expand(a[1], -1, -1, -1))


@pytest.mark.parametrize("name", NAMES)
def test_a_row_alone_is_the_same_row_in_its_batch(name: str, subject: Any) -> None:
    assert alone_from_batch(subject(name)) <= 1


@pytest.mark.parametrize(
    "seed",
    [slots_for_positions, visible_padding, memory_of_another_row, position_of_the_first_row, mask_of_the_first_row],
)
def test_a_row_that_depends_on_its_neighbours_or_padding_is_found(
    seed: Seed, subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch)
    assert alone_from_batch(subject("rotated")) > 100


@pytest.mark.parametrize("order", [[2, 1, 0], [1, 2, 0], [0, 2, 1]], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_permuted_rows_give_the_permuted_answer(name: str, order: list[int], subject: Any) -> None:
    assert permuted_from_plain(subject(name), order) <= 1


@pytest.mark.parametrize("seed", [memory_of_another_row, position_of_the_first_row, mask_of_the_first_row])
def test_rows_that_are_mixed_up_are_found_by_a_permutation(
    seed: Seed, subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch)
    assert permuted_from_plain(subject("rotated"), [2, 1, 0]) > 100


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_end_at_different_steps_are_as_if_decoded_alone(name: str, subject: Any) -> None:
    assert alone_from_ragged_decode(subject(name)) <= 1


@pytest.mark.parametrize("seed", [slots_for_positions, visible_own_padding, memory_of_another_row])
def test_a_ragged_decode_that_mixes_rows_or_counts_padding_is_found(
    seed: Seed, subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch)
    assert alone_from_ragged_decode(subject("rotated")) > 100


@torch.no_grad()
def generated(subject: Any, request: Any, stop: int | None, count: int = 8) -> list[list[int]]:
    """Greedy texts of a request's rows, prompted with its first two target slots, cut behind `stop`."""
    prompt = request.target[:, -2:]
    ids = subject.model.generate(
        input_ids=request.source,
        attention_mask=request.source_mask,
        decoder_input_ids=prompt,
        decoder_attention_mask=request.target_mask[:, -2:],
        decoder_start_token_id=prompt[:, 0].tolist(),
        max_new_tokens=count,
        do_sample=False,
        eos_token_id=stop,
        pad_token_id=1,
    )
    rows = ids[:, 2:].tolist()
    return [row[: row.index(stop) + 1] if stop in row else row for row in rows]


@pytest.mark.parametrize("name", ["rotated", "unrotated", "window", "qwen2"])
def test_texts_that_end_at_different_steps_are_those_of_the_rows_alone(name: str, subject: Any) -> None:
    whole = subject(name)
    free = generated(whole, whole.request, None)
    stop = next(token for token in free[0][1:5] if [row.index(token) if token in row else 8 for row in free] != [8] * 3)
    texts = generated(whole, whole.request, stop)
    assert len({len(text) for text in texts}) > 1
    lone = [whole.request.alone(row) for row in range(3)]
    assert [generated(whole, request, stop)[0] for request in lone] == texts
