"""Caches of others: rings read from the wrong slot, few bits, stages that pair by place, a token that falls between."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.cache_seeds import Pair, both_old, own_cache
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_decoder

_STEPS_OF_4_BITS, _STEPS_OF_2_BITS = 15, 3
_GROUP = 4
"""Tokens that share the scales of a channel."""


def one_slot_old(patch: Patch) -> None:
    """A full ring is read from the slot that the next token will be written to: one token too old, the newest not."""
    windows = [attention.sliding_window for attention in patch.attentions("decoder")]

    def read(_cache: Any, pair: Pair, past: int, layer: int) -> Pair:
        window = windows[layer]
        for x in pair if window and past >= window else ():
            x[:, :, past - window + 1 : past] = x[:, :, past - window : past - 1].clone()
        return pair

    own_cache(read, keep=False)(patch)


def rounded(x: torch.Tensor, low: torch.Tensor, high: torch.Tensor, steps: int) -> torch.Tensor:
    """`x` in `steps` equal steps from `low` to `high`."""
    scale = ((high - low) / steps).clamp(min=1e-8)
    return ((x - low) / scale).round().clamp(0, steps) * scale + low


def range_with_zero(x: torch.Tensor) -> torch.Tensor:
    """Lanes behind the end of a head are loaded as 0 and take part in its smallest and largest number."""
    low, high = x.amin(-1, keepdim=True).clamp(max=0), x.amax(-1, keepdim=True).clamp(min=0)
    return rounded(x, low, high, _STEPS_OF_4_BITS)


def groups_across_rows(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
    """The prompts' tokens lie in one row, and a group of them that share a channel's scale may be of two requests."""
    prompt = vars(cache).setdefault("prompts", {}).setdefault(layer, pair[0].shape[2])
    if past:
        keys, values = (x[:, :, :prompt] for x in pair)
        flat = keys.transpose(1, 2).flatten(0, 1)
        groups = [
            rounded(part, part.amin(0, keepdim=True), part.amax(0, keepdim=True), _STEPS_OF_2_BITS)
            for part in torch.split(flat, _GROUP)
        ]
        keys.copy_(torch.unflatten(torch.cat(groups), 0, (-1, prompt)).transpose(1, 2))
        values.copy_(
            rounded(values, values.amin(-1, keepdim=True), values.amax(-1, keepdim=True), _STEPS_OF_2_BITS).clone()
        )
    return pair


def paired_by_place(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
    """Each of two stages sends the caches of its layers to the places 0, 1, … of the side that decodes."""
    prompt = vars(cache).setdefault("prompts", {}).setdefault(layer, pair[0].shape[2])
    depth = len(cache.layers)
    first = (depth + 1) // 2
    if past:
        source = cache.layers[(first + layer) % depth]
        for x, theirs in zip(pair, (source.keys, source.values), strict=True):
            if layer >= first:
                x[:, :, :prompt] = 0
            elif first + layer < depth:
                x[:, :, :prompt] = theirs[:, :, :prompt]
    return pair


def gap_behind_prefix(patch: Patch) -> None:
    """Of a prefix that was stored all but the last token are found, and what follows begins behind it."""
    prefix: list[int] = [0]

    def positions(plain: Any, *args: Any) -> Any:
        result = plain(*args)
        if args[5] != "decoder position_ids":
            return result
        prefix[:] = prefix if args[4] else [args[3]]
        return result - 1 if args[4] else result

    def rule(cells: Cells) -> torch.Tensor:
        return cells.rule & (cells.key != prefix[0] - 1) if cells.past else cells.rule

    patch.wrap(modeling_qwen3_decoder, "positions", positions)
    decoder_mask(rule=rule)(patch)


_BOTH = "merged_attn.cache_keys merged_attn.cache_values"
_STEPS = "decoder/ragged_decode encdec/ragged"

ROWS = (
    row("F051", "a full ring is read from one slot too early: a token too old is seen, and the newest one is not",
        "huggingface/transformers#47708", "ring", "decoder/window_chunks decoder/window_even", one_slot_old, _BOTH),
    row("F052", "the range of 4-bit keys and values is stretched to 0 by lanes behind the end of a head",
        "InternLM/lmdeploy#4849", "quantised cache", "decoder/plain encdec/unpadded",
        own_cache(both_old(range_with_zero), keep=False), _BOTH),
    row("F053", "stages send their layers' caches by place: the second stage's arrive at the first one's layers",
        "vllm-project/vllm-ascend#15900", "transfer", _STEPS, own_cache(paired_by_place, keep=False), _BOTH),
    row("F054", "2-bit keys share the scales of a channel with tokens of other requests", "sgl-project/sglang#22777",
        "quantised cache", _STEPS, own_cache(groups_across_rows, keep=False), _BOTH),
    row("F055", "a stored prefix lacks its last token, and nobody computes it: positions behind it are one too small",
        "waybarrios/vllm-mlx#311", "prefix cache", "encdec/unrotated decoder/head_dim_64_ragged", gap_behind_prefix,
        "decoder.position_ids merged_attn.mask"),
)  # fmt: skip
