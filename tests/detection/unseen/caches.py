"""Caches in pages, in few bits, shared by rows and requests."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.cache_seeds import Pair, own_cache
from detection.mutants.patch import Patch
from detection.unseen.row import REQUEST, row

_KEYS, _VALUES, _NEWEST = "merged_attn.cache_keys", "merged_attn.cache_values", "merged_attn.k_rope"
_BOTH = f"{_KEYS} {_VALUES}"
_STEPS = "decoder/ragged_decode"
_PAGE = r"slots? 0 ?(to|–|-|…) ?3\b|pages?\b|multiple of 4|out of the window"


def _shared_page(_cache: Any, held: Pair, past: int, _layer: int) -> Pair:
    if past:
        held[1][0, :, past:] = held[1][1, :, past:]
    return held


def _pages_exchanged(_cache: Any, held: Pair, past: int, _layer: int) -> Pair:
    if past >= 8:
        held[1][:, :, :8] = held[1][:, :, [4, 5, 6, 7, 0, 1, 2, 3]]
    return held


def _rejected_draft(_cache: Any, held: Pair, past: int, _layer: int) -> Pair:
    if past > 5:
        for x in held:
            x[:, :, 5] = x[:, :, 4]
    return held


def _prefix_of_first(patch: Patch) -> None:
    begun: list[Any] = []

    def read(cache: Any, held: Pair, _past: int, layer: int) -> Pair:
        if cache not in begun:
            begun.append(cache)
        if cache is not begun[0]:
            before = begun[0].layers[layer]
            for x, theirs in zip(held, (before.keys, before.values), strict=True):
                x[:, :, :4] = theirs[:, :, :4]
        return held

    own_cache(read)(patch)


def _page_freed(patch: Patch) -> None:
    config = patch.model.config

    def read(_cache: Any, held: Pair, past: int, layer: int) -> Pair:
        window = config.window(config.layer_type(layer))
        outside = 0 if window is None else max(past - window + 1, 0)
        for x in held:
            x[:, :, : min(-(-outside // 4) * 4, past)] = 0
        return held

    own_cache(read)(patch)


def _saturated(patch: Patch) -> None:
    most: dict[int, torch.Tensor] = {}

    def read(_cache: Any, held: Pair, past: int, layer: int) -> Pair:
        keys = held[0]
        if not past:
            most[layer] = keys.abs().amax((0, 2), keepdim=True)
        else:
            keys[:, :, past:] = keys[:, :, past:].clamp(-most[layer], most[layer])
        return held

    own_cache(read)(patch)


def _eight_bit_floats(patch: Patch) -> None:
    scales: dict[tuple[int, int], torch.Tensor] = {}

    def read(_cache: Any, held: Pair, past: int, layer: int) -> Pair:
        for which, x in enumerate(held):
            new = x[:, :, past:]
            scale = scales.setdefault((layer, which), new.abs().max() / 224)
            x[:, :, past:] = (new / scale).to(torch.float8_e4m3fn).to(x.dtype) * scale
        return held

    own_cache(read)(patch)


def _no_zero_point(_cache: Any, held: Pair, past: int, _layer: int) -> Pair:
    new = held[1][:, :, past:]
    low, high = new.amin(-1, keepdim=True), new.amax(-1, keepdim=True)
    scale = (high - low) / 255
    held[1][:, :, past:] = ((new - low) / scale).round() * scale
    return held


ROWS = (
    row("S7", "the page table of V is stale: its first two pages of 4 are exchanged once there are 8 slots",
        own_cache(_pages_exchanged, keep=False), _VALUES, ["cache.slot_map", "from.other_slot"], "decoder/plain",
        "layer"),
    row("S8", "copy-on-write missing: in decode row 0 and row 1 share the page of V, row 1 writes last",
        own_cache(_shared_page), _VALUES,
        ["cache.other_row", "from.other_row", "cache.slot_map: row 0, .*row 1"], _STEPS, "layer"),
    row("S9", "a rejected draft stays in the cache: the slot of the first decoded token holds the slot before",
        own_cache(_rejected_draft, keep=False), _BOTH, ["cache.slot_map", r"from.*: slots? 5\b|\b5 ← "], _STEPS,
        "modules"),
    row("S10", "prefix cache: the second request takes the first four slots of the first", _prefix_of_first,
        f"{_NEWEST} {_VALUES}", ["cache.stale", "from.earlier_request", f"*: {REQUEST}"], "encdec/second_request",
        "logits"),
    row("S11", "window with pages of 4: a page is freed as soon as its first token is out of the window", _page_freed,
        _BOTH, ["cache.slot_map", f"cache.not_written: {_PAGE}", f"cache.truncated: {_PAGE}", f"from.*: {_PAGE}"],
        "decoder/window_chunks", "layer"),
    row("X33", "int8 KV cache with the scales of the prompt: keys of decode steps saturate", _saturated, _NEWEST,
        ["invariant.clamped", "cache.clamped", "*: clamp|saturat|none exceeds|exceeds? "], "decoder/plain", "modules"),
    row("C21", "KV cache in fp8 e4m3, one scale a tensor", _eight_bit_floats, f"{_NEWEST} {_VALUES}",
        ["*: e4m3|fp8|float8|(3|three|4|four) bits"], _STEPS, "modules"),
    row("C22", "V cache in asymmetric int8, dequantised without its zero point", own_cache(_no_zero_point), _VALUES,
        ["*: zero.?point|constant|offset|minimum|least value"], _STEPS, "layer"),
)  # fmt: skip
