"""Seeded bugs: which of the decoder's own keys and values are still there at the next step.

The recorder takes `k_rope` from the newest slots of what the cache gives back, so a cache that spoils its newest slots
makes that tap wrong as well.
"""

from __future__ import annotations

from detection.mutants.cache_reads import (
    beyond_capacity,
    copied_back,
    exchanged,
    layer_before,
    overwritten,
    ring,
    ring_in_prompt,
    rows_shared,
    when_full,
)
from detection.mutants.cache_seeds import both_old, every_slot, other_request, own_cache, slots_as
from detection.mutants.cross_caches import CROSS
from detection.mutants.entry import entry
from detection.mutants.more_caches import OWN_IDEAS
from detection.mutants.step_seeds import moved_positions, normed_again, token_twice

_KEYS, _VALUES, _NEWEST = "merged_attn.cache_keys", "merged_attn.cache_values", "merged_attn.k_rope"
_BOTH, _ALL = (_KEYS, _VALUES), (_KEYS, _VALUES, _NEWEST)
_CASES = ("decoder/ragged_decode", "decoder/window_chunks", "encdec/ragged")
_CROSS = ("encdec/ragged", "encdec/unrotated", "encdec/window")
_SECOND = ("encdec/second_request",)


_OWN = (
    entry("KVC-01", "a slot holds what the memory held", own_cache(both_old(slots_as(slice(1, 2), 3e8))), _BOTH,
          "cache.not_written cache.slot_map", _CASES),
    entry("KVC-01/nan", "a slot that was never written is NaN",
          own_cache(both_old(slots_as(slice(1, 2), float("nan")))), _BOTH, "cache.not_written cache.slot_map", _CASES),
    entry("KVC-02", "the cache is not cleared: slots still hold the request before", other_request(99), _BOTH,
          "cache.stale", _SECOND),
    entry("KVC-04", "keys and values are stored in each other's slots", own_cache(exchanged, keep=False), _BOTH,
          "cache.keys_values_exchanged", _CASES),
    entry("KVC-04/layer", "older slots are those of the layer before", own_cache(layer_before, keep=False), _BOTH,
          "cache.other_layer", _CASES),
    entry("KVC-05", "a new key overwrites the last one and leaves its own slot empty",
          own_cache(every_slot(overwritten)), _ALL, "cache.slot_map", _CASES),
    entry("KVC-05/copy", "a new key also overwrites the last one", own_cache(every_slot(copied_back)), _BOTH,
          "cache.slot_map", _CASES),
    entry("KVC-06", "the first decode step is fed the prompt's last token again", token_twice,
          ("decoder.embed_tokens",), "embedding.other_row wiring.previous_step",
          ("decoder/ragged_decode", "encdec/ragged")),
    entry("KVC-08", "slots turn when the length reaches the window", own_cache(every_slot(when_full)), _BOTH,
          "cache.slot_map", ("decoder/window_chunks",)),
    entry("KVC-10", "a ring of 5 slots under a mask for all of them", own_cache(every_slot(ring), keep=False), _BOTH,
          "cache.slot_map", ("decoder/window_chunks",)),
    entry("KVC-10/prompt", "a prompt longer than the ring overwrites itself", own_cache(every_slot(ring_in_prompt)),
          (_NEWEST, _VALUES), "cache.slot_map", ("encdec/window",)),
    entry("KVC-13", "rows share the memory of their decode steps", own_cache(both_old(rows_shared)), _BOTH,
          "cache.other_row cache.slot_map", ("decoder/ragged_decode", "encdec/ragged")),
    entry("KVC-14", "slots beyond a capacity of 6 stay empty", own_cache(every_slot(beyond_capacity)),
          (_NEWEST, _VALUES), "cache.not_written cache.slot_map", _CASES),
    entry("KVC-16", "a prefix of the request before is reused", other_request(2), _BOTH, "cache.stale", _SECOND),
    entry("POS-08", "positions go on from the 5 slots that a ring keeps",
          moved_positions(lambda past, *_: min(5 - past, 0)), ("decoder.position_ids",), "positions.offset", _CASES),
    entry("POS-10", "the past is the cache's length less the encoder's, which every step appends again",
          moved_positions(lambda _, call, length: max(call - 1, 0) * length), ("decoder.position_ids",),
          "positions.offset", _CROSS),
    entry("QKN-08", "cached keys are normed again at every step", normed_again, (_KEYS,), "cache.renormed", _CASES),
)  # fmt: skip

MUTANTS = (*_OWN, *OWN_IDEAS, *CROSS)
