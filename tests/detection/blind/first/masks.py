"""Masks of others: who sees whom, in the prompt, in chunks and in decode steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_encoder
from qwen3_encdec.masks import additive_mask

Visible = Callable[[torch.Tensor, torch.Tensor, int | None], torch.Tensor]
"""`visible(distance, real, window)`: of the encoder, by `query - key [query, key]` and `real [batch, key]`."""


def encoder_rule(visible: Visible, where: Callable[[Any], bool] = lambda _mask: True) -> Seed:
    """The encoder's mask by another rule, on batches whose mask `where` picks."""

    def around(plain: Any, mask: Any, batch: int, length: int, window: int | None, dtype: Any, device: Any) -> Any:
        if not where(mask):
            return plain(mask, batch, length, window, dtype, device)
        index = torch.arange(length)
        real = torch.ones(batch, length, dtype=torch.bool) if mask is None else mask.bool()
        cells = visible(index[:, None] - index, real, window)
        return additive_mask(cells.expand(batch, length, length)[:, None], dtype)

    return lambda patch: patch.wrap(modeling_qwen3_encoder, "encoder_mask", around)


def near(distance: torch.Tensor, window: int | None) -> torch.Tensor:
    return distance.abs() <= window if window else torch.ones_like(distance, dtype=torch.bool)


def right_side_short(distance: torch.Tensor, real: torch.Tensor, window: int | None) -> torch.Tensor:
    inside = near(distance, window) & (distance != -(window or -1))
    return inside & real[:, None]


def causal(distance: torch.Tensor, real: torch.Tensor, window: int | None) -> torch.Tensor:
    return (distance >= 0) & near(distance, window) & real[:, None]


def single(cells: Cells) -> bool:
    return len(cells.query) == 1


def decode_unwindowed(cells: Cells) -> torch.Tensor:
    return cells.causal & cells.real if single(cells) else cells.rule


def wrong_diagonal(cells: Cells) -> torch.Tensor:
    hidden = (cells.distance < 0) & (cells.distance >= -(cells.window or 1000))
    return ~hidden & cells.real


def top_left(cells: Cells) -> torch.Tensor:
    local = cells.query - cells.past >= cells.key
    return cells.rule if single(cells) else local & cells.near() & cells.real


def padding_at_first(cells: Cells) -> torch.Tensor:
    return cells.rule if not cells.past else cells.causal & cells.near()


def memory_at_first(cells: Cells) -> torch.Tensor:
    return cells.real if not cells.past else torch.ones_like(cells.real)


def both_ways(cells: Cells) -> torch.Tensor:
    return cells.rule if cells.past else cells.real & (cells.near() | (cells.distance < 0))


def by_captured_length(patch: Patch) -> None:
    """A graph captured at the first decode step goes on with that step's number of keys."""
    captured: list[int] = []

    def rule(cells: Cells) -> torch.Tensor:
        if not cells.past:
            captured.clear()
        elif single(cells) and not captured:
            captured.append(cells.past + 1)
        return cells.rule & (cells.key < captured[0]) if captured else cells.rule

    decoder_mask(rule=rule)(patch)


def emptied_at(past: int) -> Callable[[Cells], torch.Tensor]:
    return lambda cells: cells.rule & (cells.key >= cells.past) if cells.past == past else cells.rule


_WINDOWS = "decoder/window_chunks encdec/window"
_MERGED, _OWN = "merged_attn.mask", "self_attn.mask"

ROWS = (
    row("B024", "decode steps of one token forget the window", "karpathy/nanochat#452", "mask", _WINDOWS,
        decoder_mask(rule=decode_unwindowed), _MERGED),
    row("B025", "the window's right side is one key short", "huggingface/transformers#47162", "mask",
        "encoder/window_odd encoder/window_even", encoder_rule(right_side_short), _OWN),
    row("B026", "the window's diagonal has the wrong sign: no window, and far later keys are seen",
        "huggingface/transformers#41228", "mask", "encdec/window", decoder_mask(rule=wrong_diagonal), _MERGED),
    row("B027", "padding is hidden in the first step alone", "OpenNMT/OpenNMT-py#2532", "mask", "encdec/ragged",
        decoder_mask(padding_at_first, memory_at_first), _MERGED),
    row("B028", "in a later chunk query i sees the keys up to i alone, counted from the first slot",
        "gittensor-ai-lab/sparkinfer#3", "mask", "encdec/unrotated decoder/window_chunks",
        decoder_mask(rule=top_left), _MERGED),
    row("B029", "where nothing is padded the encoder's mask is dropped, and the kernel is causal",
        "huggingface/transformers#42820", "mask", "encdec/unpadded",
        encoder_rule(causal, lambda mask: mask is None),
        _OWN),
    row("B030", "the decoder's prompt sees later tokens", "huggingface/transformers#48745", "mask",
        "decoder/ragged_decode encdec/ragged", decoder_mask(rule=both_ways), _MERGED),
    row("B031", "padding is broadcast along queries: rows are hidden, not columns", "keras-team/keras-io#1046",
        "mask", "encoder/ragged",
        encoder_rule(lambda distance, real, window: near(distance, window) & real[:, :, None]), _OWN),
    row("B032", "the bidirectional model never reads its attention_mask", "AI4Bharat/IndicBERT#20", "mask",
        "encoder/ragged encdec/ragged",
        encoder_rule(lambda distance, real, window: near(distance, window)[None].expand( len(real), -1, -1)), _OWN),
    row("B033", "a captured graph goes on with the number of keys it was captured with", "paiml/aprender#2030",
        "mask", "decoder/ragged_decode decoder/plain", by_captured_length, _MERGED),
    row("B034", "every row of cross-attention has the first row's memory length", "NVIDIA/FasterTransformer#270",
        "mask", "encdec/ragged encdec/qwen2",
        decoder_mask(memory=lambda cells: cells.real[:1].expand_as(cells.real)), _MERGED),
    row("B035", "a rejected draft resets the cache: one step sees nothing but itself", "paiml/aprender#2014", "mask",
        "decoder/ragged_decode", decoder_mask(rule=emptied_at(7)), _MERGED),
)  # fmt: skip
