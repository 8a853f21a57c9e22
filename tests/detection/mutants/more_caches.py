"""Seeded bugs: what else becomes of the decoder's own keys and values between two steps."""

from __future__ import annotations

from detection.mutants.cache_reads import (
    first_lost,
    in_eight_bits,
    layer_before,
    newest_missing,
    one_head,
    one_row_late,
)
from detection.mutants.cache_seeds import both_old, every_slot, old_slots, own_cache, slots_as
from detection.mutants.entry import entry
from detection.mutants.step_seeds import cached_before_rope

_KEYS, _VALUES, _NEWEST = "merged_attn.cache_keys", "merged_attn.cache_values", "merged_attn.k_rope"
_BOTH, _ALL = (_KEYS, _VALUES), (_KEYS, _VALUES, _NEWEST)
_CASES = ("decoder/ragged_decode", "decoder/window_chunks", "encdec/ragged")


OWN_IDEAS = (
    entry("own/cache-unrotated", "keys are cached unrotated and never rotated", cached_before_rope, (_KEYS,),
        "cache.unrotated", _CASES),
    entry("own/cache-values-layer-before", "older values are those of the layer before",
        own_cache(lambda cache, found, past,
        layer: (found[0], layer_before(cache, (found[0].clone(), found[1]), past, layer)[1]), keep=False), (_VALUES,),
        "cache.other_layer", _CASES),
    entry("own/cache-row-late", "one row's older slots are late by one", own_cache(both_old(one_row_late), keep=False),
        _BOTH, "cache.slot_map", _CASES),
    entry("own/cache-values-late", "older values are late by one slot, keys are not",
        own_cache(old_slots(values=lambda x: x.roll(1, 2)), keep=False), (_VALUES,), "cache.slot_map", _CASES),
    entry("own/cache-reversed", "older slots come newest first", own_cache(both_old(lambda x: x.flip(2)), keep=False),
        _BOTH, "cache.slot_map", _CASES),
    entry("own/cache-rows", "older slots are another row's", own_cache(both_old(lambda x: x.roll(1, 0)), keep=False),
        _BOTH, "cache.other_row", _CASES),
    entry("own/cache-cut", "slots older than 4 are emptied on every layer",
        own_cache(both_old(slots_as(slice(0, -4), 0.0))), _BOTH, "cache.not_written cache.slot_map",
        ("decoder/window_chunks", "decoder/ragged_decode")),
    entry("own/cache-first-slot-lost", "slot 0 is emptied when a sixth token comes", own_cache(every_slot(first_lost)),
        _BOTH, "cache.not_written cache.slot_map", _CASES[:1]),
    entry("own/cache-prompt-alone", "decode steps see the prompt and themselves alone",
        own_cache(both_old(slots_as(slice(5, None), 0.0))), _BOTH, "cache.not_written cache.slot_map",
        ("decoder/ragged_decode",)),
    entry("own/cache-written-late", "a decode step does not find its own key and value yet",
        own_cache(every_slot(newest_missing), keep=False), _ALL, "cache.not_written cache.slot_map", _CASES),
    entry("own/cache-one-head", "older slots of every head are head 0's", own_cache(both_old(one_head)), _BOTH,
        "cache.kv_heads fit.concentrated", _CASES),
    entry("own/cache-bfloat16", "older slots went through bfloat16",
        own_cache(both_old(lambda x: x.bfloat16().to(x.dtype))), _BOTH, "fit.grid cache.half_precision", _CASES),
    entry("own/cache-eight-bits", "older slots went through 8 bits", own_cache(both_old(in_eight_bits), keep=False),
        _BOTH, "fit.grid cache.quantised", _CASES),
)  # fmt: skip
