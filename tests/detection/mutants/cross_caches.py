"""Seeded bugs: where the encoder's keys and values stand in what is attended to, and whose they are."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.cache_seeds import Pair, attended, cross_cache, first_source, later, slots_as
from detection.mutants.entry import entry

_KEYS, _VALUES, _NEWEST = "merged_attn.cache_keys", "merged_attn.cache_values", "merged_attn.k_rope"
_ALL = (_KEYS, _VALUES, _NEWEST)
_ENCODER = ("merged_attn.cache_encoder_keys", "merged_attn.cache_encoder_values")
_CROSS = ("encdec/ragged", "encdec/unrotated", "encdec/window")
_SECOND = ("encdec/second_request",)


def _appended_again(module: Any, new: int, pair: Pair, mask: torch.Tensor) -> tuple[Pair, torch.Tensor]:
    """A decode step finds the encoder's keys once more behind the right ones, and the mask is as long."""
    length = module.encoder_length
    again = int(pair[0].shape[2] - length > new)
    keys, values, wide = (
        torch.cat((x, *[x.narrow(axis, x.shape[axis] - length, length)] * again), axis)
        for x, axis in ((pair[0], 2), (pair[1], 2), (mask, 3))
    )
    return (keys, values), wide


def _interleaved(module: Any, new: int, pair: Pair, mask: torch.Tensor) -> tuple[Pair, torch.Tensor]:
    """A decode step finds [older ; encoder ; new]; the mask stays [own ; encoder]."""
    total = pair[0].shape[2]
    own_length = total - module.encoder_length
    order = [*range(own_length - new), *range(own_length, total), *range(own_length - new, own_length)]
    return (pair[0][:, :, order], pair[1][:, :, order]), mask


def _keys_exchanged(module: Any, new: int, pair: Pair, mask: torch.Tensor) -> tuple[Pair, torch.Tensor]:
    """The keys are [encoder ; own], the values [own ; encoder]."""
    return (pair[0].roll(module.encoder_length, 2), pair[1]), mask


def _cross_layer_before(pair: Pair, cache: Any, layer: int) -> Pair:
    earlier = cache.cross_attention_cache.layers[max(layer - 1, 0)]
    return earlier.keys, earlier.values


CROSS = (
    entry("MRG-01/keys", "the keys are [encoder ; own], the values are not", attended(_keys_exchanged),
          (_NEWEST, _ENCODER[0]), "cache.slot_map mask.halves_exchanged", ("encdec/unrotated", "encdec/ragged")),
    entry("MRG-09", "decode steps find the encoder's keys twice", attended(_appended_again),
          (*_ALL, "merged_attn.mask"), "cache.encoder_appended_again", ("encdec/ragged", "encdec/unrotated")),
    entry("MRG-10", "a decode step finds [older ; encoder ; new]", attended(_interleaved), (*_ALL, *_ENCODER),
          "cache.slot_map", ("encdec/ragged", "encdec/window")),
    entry("MRG-12", "the encoder's keys of the first request answer the second", first_source(), _ENCODER,
          "cache.stale", _SECOND),
    entry("MRG-13", "the encoder's keys are lost after the first call", later(torch.zeros_like), _ENCODER,
          "cache.not_written", _CROSS),
    entry("own/memory-rows", "the encoder's keys and values are another row's",
          cross_cache(lambda pair, *_: (pair[0].roll(1, 0), pair[1].roll(1, 0))), _ENCODER, "cache.other_row",
          _CROSS),
    entry("own/memory-cache-exchanged", "the encoder's keys and values are exchanged in the cache",
          cross_cache(lambda pair, *_: (pair[1], pair[0])), _ENCODER, "cache.keys_values_exchanged", _CROSS),
    entry("own/memory-layer-before", "the encoder's keys and values are the layer's before",
          cross_cache(_cross_layer_before), _ENCODER, "cache.other_layer", _CROSS),
    entry("own/memory-rescaled", "decode steps take the encoder's keys and values 1 % larger",
          later(lambda x: x * 1.01), _ENCODER, "fit.factor", _CROSS),
    entry("own/memory-late", "decode steps find the encoder's keys late by one slot",
          later(lambda x: x.roll(1, 2), lambda x: x), (_ENCODER[0],), "cache.slot_map", _CROSS),
    entry("own/memory-cut", "decode steps have the encoder's last 5 keys alone", later(slots_as(slice(0, -5), 0.0)),
          _ENCODER, "cache.not_written cache.slot_map", ("encdec/window", "encdec/ragged")),
)  # fmt: skip
