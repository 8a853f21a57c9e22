"""Slots of others that are rolled too early, dropped, written over by padding, or found in another row's pages."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.cache_seeds import Pair, every_slot, own_cache
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_decoder

_STRIDE = 4
"""Slots a row of a buffer that was sized for an earlier, shorter batch."""


def rolled_early(patch: Patch) -> None:
    """The step that fills a ring's last slot rolls it already: the oldest token is lost, another slot empty."""
    windows = [attention.sliding_window for attention in patch.attentions("decoder")]

    def read(_cache: Any, pair: Pair, past: int, layer: int) -> Pair:
        if past == (windows[layer] or 0) - 1 and pair[0].shape[2] == past + 1:
            for x in pair:
                x[:, :, : past - 1] = x[:, :, 1:past].clone()
                x[:, :, past - 1] = 0
        return pair

    own_cache(read)(patch)


def turned_part_dropped(cells: Cells) -> torch.Tensor:
    """Several tokens behind a ring that has wrapped see what was written since it last stood at its start."""
    if len(cells.query) == 1 or not cells.window or cells.past <= cells.window:
        return cells.rule
    start = cells.past - cells.past % cells.window
    return cells.rule & (cells.key >= start)


def slot_of_padding(x: torch.Tensor, past: int) -> None:
    """A captured batch is filled up with copies of its last row, whose slot is the first row's slot 0."""
    if past:
        x[0, :, 0] = x[-1, :, -1]


def negative_slot(patch: Patch) -> None:
    """Slot -1, which says that a token is padding, is written as the cache's last one."""
    masks: list[torch.Tensor] = []

    def positions(plain: Any, *args: Any) -> Any:
        masks[:] = [args[1]] if args[5] == "decoder position_ids" else masks
        return plain(*args)

    def read(_cache: Any, pair: Pair, past: int, _layer: int) -> Pair:
        padding = (~masks[0][:, past : pair[0].shape[2]].bool()).nonzero()
        if len(padding):
            last, slot = padding[-1].tolist()
            for x in pair:
                x[-1, :, -1] = x[last, :, past + slot]
        return pair

    patch.wrap(modeling_qwen3_decoder, "positions", positions)
    own_cache(read)(patch)


def prompts(read: Any) -> Seed:
    """`read(x, prompt)` changes keys or values of a step with a past; `prompt` counts the first call's slots."""

    def around(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
        prompt = vars(cache).setdefault("prompts", {}).setdefault(layer, pair[0].shape[2])
        for x in pair if past else ():
            read(x, prompt)
        return pair

    return own_cache(around, keep=False)


def from_first_sequence(x: torch.Tensor, prompt: int) -> None:
    """Rows count on from the table of sequence 0, which lies second: the rows behind it take each other's pages."""
    x[1:3, :, :prompt] = x[1:3, :, :prompt].flip(0)


def moved_row(x: torch.Tensor, prompt: int) -> None:
    """After two steps the last row moves to the first one's place, and its pages do not."""
    moved = prompt + 2
    if x.shape[2] > moved:
        x[-1, :, :moved] = x[0, :, :moved]


def stale_stride(x: torch.Tensor, prompt: int) -> None:
    """Rows lie 4 slots apart, so that a later row is written over the end of the one before."""
    rows, total = x.shape[0], x.shape[2]
    calls = [range(prompt), *([slot] for slot in range(prompt, total))]
    writes = [(index, slot) for call in calls for index in range(rows) for slot in call]
    held = {index * _STRIDE + slot: (index, slot) for index, slot in writes}
    before = x.clone()
    for index in range(rows):
        for slot in range(total):
            owner, theirs = held[index * _STRIDE + slot]
            x[index, :, slot] = before[owner, :, theirs]


def one_address(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
    """Keys and values of the prompt are both loaded to where the keys lie, the values last."""
    prompt = vars(cache).setdefault("prompts", {}).setdefault(layer, pair[0].shape[2])
    if past:
        pair[0][:, :, :prompt] = pair[1][:, :, :prompt]
        pair[1][:, :, :prompt] = 0
    return pair


_BOTH = "merged_attn.cache_keys merged_attn.cache_values"
_NEWEST = "merged_attn.k_rope merged_attn.cache_values"
_STEPS = "decoder/ragged_decode encdec/ragged"

ROWS = (
    row("D101", "a ring rolls one step too early, when its last slot is filled: token 0 is gone and a slot is empty",
        "huggingface/transformers#37574", "ring", "decoder/window_even", rolled_early, _BOTH),
    row("D102", "a call of several tokens behind a wrapped ring drops the part of the ring behind its write index",
        "ollama/ollama#15591", "ring", "decoder/window_chunks decoder/window_even",
        decoder_mask(rule=turned_part_dropped), "merged_attn.mask"),
    row("D103", "rows that fill up a captured batch write into the first row's slot 0", "m0at/rvllm#32", "slots",
        _STEPS, own_cache(every_slot(slot_of_padding)), _BOTH),
    row("D104", "padding's slot -1 is taken for an index: padding overwrites the last slot of the cache",
        "vllm-project/vllm#43810", "slots", "decoder/ragged_decode decoder/head_dim_64_ragged", negative_slot,
        _NEWEST, also="merged_attn.cache_keys"),
    row("D105", "the batch's rows are looked up from sequence 0's place in the block table: two rows are exchanged",
        "gittensor-ai-lab/sparkinfer#289", "scheduling", "encdec/ragged decoder/ragged_decode",
        prompts(from_first_sequence), _BOTH),
    row("D106", "a row moves into the place of one that has ended, and its cached tokens stay behind",
        "tenstorrent/tt-xla#5799", "scheduling", "decoder/plain_two_rows encdec/ragged", prompts(moved_row), _BOTH),
    row("D107", "the buffer keeps the stride of an earlier batch: rows overlap", "paiml/aprender#2028", "scheduling",
        _STEPS, prompts(stale_stride), _BOTH),
    row("D108", "the prompt's keys and values are loaded to one address: keys hold values, values nothing",
        "vllm-project/vllm-ascend#11021", "transfer", "decoder/head_dim_64 decoder/plain",
        own_cache(one_address, keep=False), _BOTH),
)  # fmt: skip
