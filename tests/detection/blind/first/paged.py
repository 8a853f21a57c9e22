"""Paged caches and rings of others: which slot is written, which is read, and whose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.cache_seeds import every_slot, own_cache

Slots = Callable[[torch.Tensor, int], None]


def misaligned_chunk(x: torch.Tensor, past: int) -> None:
    """A chunk is written from the start of the block of 2 that it begins in."""
    start, stop = past // 2 * 2, x.shape[2]
    if stop > past + 1 and start < past:
        x[:, :, start : stop - 1] = x[:, :, past:].clone()
        x[:, :, stop - 1] = 0


def last_block_again(x: torch.Tensor, past: int) -> None:
    """Of blocks of 4, tokens behind the table's two blocks go into the last of them."""
    for slot in range(8, x.shape[2]):
        if past:
            x[:, :, 4 + slot % 4] = x[:, :, slot]


def clamped_block(x: torch.Tensor, past: int) -> None:
    """The second block's table entry is out of range and clamped to block 0."""
    if past:
        stop = min(8, past)
        x[:, :, 4:stop] = x[:, :, : max(stop - 4, 0)].clone()


def adjacent_blocks(x: torch.Tensor, past: int) -> None:
    """Blocks of 4 lie row by row, [0 of each row, 1 of each row]: the second read is the block behind the first."""
    stop = min(8, past)
    if stop > 4:
        before = x.clone()
        x[:-1, :, 4:stop] = before[1:, :, : stop - 4]
        x[-1, :, 4:stop] = before[0, :, 4:stop]


def unrolled_ring(x: torch.Tensor, past: int) -> None:
    """A chunk is joined to a ring of 5 that has wrapped, in the ring's order."""
    if past > 5 and x.shape[2] > past + 1:
        order = sorted(range(past - 5, past), key=lambda token: token % 5)
        x[:, :, past - 5 : past] = x[:, :, order]


def _every(change: Slots) -> Any:
    return own_cache(every_slot(change), keep=False)


_BOTH = "merged_attn.cache_keys merged_attn.cache_values"
_NEWEST = "merged_attn.k_rope merged_attn.cache_values"

ROWS = (
    row("B055", "a chunk that begins within a block is written from the block's start",
        "tenstorrent/vllm-tt-plugin#74", "paged cache", "decoder/window_chunks encdec/unrotated",
        _every(misaligned_chunk), _NEWEST, also="merged_attn.cache_keys"),
    row("B056", "tokens behind the last block of the table overwrite that block", "EricLBuehler/mistral.rs#552",
        "paged cache", "decoder/plain decoder/ragged_decode", _every(last_block_again), _BOTH),
    row("B057", "a block that is out of range is read as block 0", "microsoft/onnxruntime#32391", "paged cache",
        "decoder/plain decoder/ragged_decode", _every(clamped_block), _BOTH),
    row("B058", "two blocks of the table are taken to lie side by side in memory", "hw-native-sys/pypto#470",
        "paged cache", "decoder/plain_two_rows decoder/ragged_decode", _every(adjacent_blocks), _BOTH),
    row("B059", "a chunk is joined to a ring that has wrapped, out of order", "ollama/ollama#14912", "ring",
        "decoder/window_chunks", _every(unrolled_ring), _BOTH),
)  # fmt: skip
