"""Chunks and decode steps of others: where they stand, what they see, and where what they compute is written."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.cache_seeds import Pair, own_cache
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec import merged_attention, modeling_qwen3_decoder, rope
from qwen3_encdec.decoder_layer import Qwen3DecoderLayer

_DECODER = "decoder position_ids"
_SPLITS = 3
"""Parts that the keys of a decode step are split into."""


def slots_in_chunks(patch: Patch) -> None:
    """Calls of several tokens have the numbers of their slots for positions, padding or not."""

    def positions(plain: Any, *args: Any) -> Any:
        result = plain(*args)
        slots = (torch.arange(args[3]) + args[4]).expand(len(result), -1)
        return slots if args[5] == _DECODER and args[3] > 1 else result

    patch.wrap(modeling_qwen3_decoder, "positions", positions)


def ring_overrun(cells: Cells) -> torch.Tensor:
    """The whole chunk is written to a ring as long as the window before its first query looks back."""
    if len(cells.query) == 1 or not cells.window or not cells.past:
        return cells.rule
    return cells.rule & (cells.key >= cells.past + len(cells.query) - cells.window)


def turned(change: Any) -> Any:
    """A seed whose decoder layers rotate by `change(patch, layer, tables, past, length)`."""

    def seed(patch: Patch) -> None:
        past: list[int] = [0]

        def positions(plain: Any, *args: Any) -> Any:
            past[:] = [args[4]] if args[5] == _DECODER else past
            return plain(*args)

        def forward(plain: Any, layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            tables = kwargs["position_embeddings"]
            kwargs["position_embeddings"] = change(patch, layer, tables, past[0], x.shape[1])
            return plain(layer, x, *args, **kwargs)

        patch.wrap(modeling_qwen3_decoder, "positions", positions)
        patch.wrap(Qwen3DecoderLayer, "forward", forward)

    return seed


def from_zero(patch: Patch, _layer: Any, tables: Any, past: int, length: int) -> Any:
    """The tokens behind a prefix that was found in the cache are rotated as if they began the sequence."""
    if not past or length == 1:
        return tables
    rotary = patch.model.decoder.rotary_emb
    ids = torch.arange(length).expand(len(tables[0]), -1)
    return rope.rotary_tables(rotary.inv_freq, ids, tables[0].dtype, rotary.attention_factor)


def by_number_of_retained(patch: Patch, layer: Any, tables: Any, past: int, _length: int) -> Any:
    """Layers with a window count as many tokens as their cache retains."""
    window = layer.merged_attn.sliding_window
    behind = max(past - window, 0) if window else 0
    angle = behind * patch.model.decoder.rotary_emb.inv_freq.repeat(2)
    cos, sin = tables
    return cos * angle.cos() + sin * angle.sin(), sin * angle.cos() - cos * angle.sin()


def cumulative_lengths(_plain: Any, scores: torch.Tensor, mask: Any, dtype: torch.dtype) -> torch.Tensor:
    """In decode steps each part of the keys goes on for as many as there are in it and in all parts before."""
    masked = scores if mask is None else scores + mask
    keys = masked.shape[-1]
    size = keys // _SPLITS
    times = torch.zeros(keys)
    for part in range(_SPLITS):
        start, stop = part * size, (part + 1) * size if part < _SPLITS - 1 else keys
        times[start : start + stop] += 1
    times = times if masked.shape[2] == 1 else torch.ones(keys)
    return (masked + times.log()).softmax(-1).to(dtype)


def table_of_first_blocks(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
    """A later chunk's table holds the request's first blocks and is filled up with block 0, where the chunk goes.

    Block 0 is the first request's. Requests are read one after the other, each to its end.
    """
    calls = vars(cache).setdefault("calls", {}).setdefault(layer, [])
    length = pair[0].shape[2]
    chunks = [(start, stop) for start, stop in calls if start and stop > start + 1]
    in_chunk = past > 0 and length > past + 1
    for x in pair:
        before = x.clone()
        for start, stop in chunks:
            x[:, :, start:stop] = before[:, :, past : past + stop - start] if in_chunk else 0
        if in_chunk:
            x[0, :, : length - past] = before[0, :, past:]
        elif chunks:
            start, stop = chunks[-1]
            x[0, :, : stop - start] = before[-1, :, start:stop]
    calls.append((past, length))
    return pair


def values_rotated(patch: Patch) -> None:
    """In decode steps the fused split of q, k and v gives the values to the rotation, and the keys for values."""

    def project(plain: Any, module: Any, states: torch.Tensor) -> Any:
        queries, keys, values = plain(module, states)
        return (queries, values, keys) if states.shape[1] == 1 else (queries, keys, values)

    patch.wrap(merged_attention.Qwen3MergedAttention, "project", project)


_BOTH = "merged_attn.cache_keys merged_attn.cache_values"
_ROTATED = "merged_attn.q_rope merged_attn.k_rope"
_CHUNKS, _STEPS = "decoder/window_chunks encdec/unrotated", "decoder/ragged_decode encdec/ragged"

ROWS = (
    row("F056", "chunks of the prompt have slots for positions, and decode steps count tokens",
        "huggingface/transformers#43082", "positions", "decoder/window_chunks decoder/head_dim_64_ragged",
        slots_in_chunks, "decoder.position_ids"),
    row("F057", "a chunk overruns the ring: its first queries lose keys that are within their window",
        "pytorch/executorch#20346", "chunks", "decoder/window_chunks", decoder_mask(rule=ring_overrun),
        "merged_attn.mask"),
    row("F058", "the tokens behind a cached prefix are rotated from position 0 on", "pegainfer-project/pegainfer#216",
        "prefix cache", _CHUNKS, turned(from_zero), _ROTATED),
    row("F059", "a token's position is the number of tokens that the cache retains", "rajveer43/VeloxQuant-MLX#389",
        "positions", "decoder/window_even decoder/window_chunks", turned(by_number_of_retained), _ROTATED),
    row("F060", "split keys are counted by cumulative lengths: parts run on into the next one",
        "tile-ai/TileOPs#728", "split keys", "decoder/plain decoder/ragged_decode",
        lambda patch: patch.function(code.probabilities, cumulative_lengths), "merged_attn.probs"),
    row("F061", "later chunks are written to block 0: their slots stay empty, and the first row's begin is overwritten",
        "tenstorrent/tt-metal#55630", "paged cache", "encdec/unrotated decoder/window_chunks",
        own_cache(table_of_first_blocks, keep=False), _BOTH),
    row("F062", "decode steps rotate values for keys, and store keys for values", "tenstorrent/tt-mlir#8958",
        "wiring", _STEPS, values_rotated, "merged_attn.k_rope merged_attn.cache_values",
        also="merged_attn.cache_keys"),
)  # fmt: skip
