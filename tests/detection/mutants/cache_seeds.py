"""How a cache is made to give back something else than it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import merged_attention, modeling_qwen3_decoder
from qwen3_encdec.merged_attention import Qwen3MergedAttention

Pair = tuple[torch.Tensor, torch.Tensor]
"""Keys and values, each `[batch, kv_heads, slots, head_dim]`."""
Read = Callable[[Any, Pair, int, int], Pair]
"""`read(cache, (keys, values), past, layer)`: what a cache gives back, made in place of what it holds."""
Change = Callable[[torch.Tensor], torch.Tensor]


def own_cache(read: Read, *, keep: bool = True) -> Seed:
    """The decoder's cache gives back what `read` makes of its content; `keep`: and stores it, so that it stays so."""

    class Cache(DynamicCache):
        def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> Pair:
            past = int(self.get_seq_length(layer_idx))
            keys, values = super().update(key_states, value_states, layer_idx, *args, **kwargs)
            pair = read(self, (keys.clone(), values.clone()), past, layer_idx)
            if keep:
                layer: Any = self.layers[layer_idx]
                layer.keys, layer.values = pair
            return pair

    def new_cache() -> EncoderDecoderCache:
        return EncoderDecoderCache(Cache(), DynamicCache())

    return lambda patch: patch.setattr(modeling_qwen3_decoder, "new_cache", new_cache)


def old_slots(keys: Change | None = None, values: Change | None = None) -> Read:
    """The slots of earlier calls, `[batch, kv_heads, past, head_dim]`, go through `keys` and `values`."""

    def read(_cache: Any, pair: Pair, past: int, _layer: int) -> Pair:
        for x, change in zip(pair, (keys, values), strict=True):
            if past and change is not None:
                x[:, :, :past] = change(x[:, :, :past].clone())
        return pair

    return read


def both_old(change: Change) -> Read:
    """The keys and the values of earlier calls go through `change`."""
    return old_slots(change, change)


def every_slot(change: Callable[[torch.Tensor, int], None]) -> Read:
    """`change(keys or values, past)` writes into all slots, the new ones too."""

    def read(_cache: Any, pair: Pair, past: int, _layer: int) -> Pair:
        for x in pair:
            change(x, past)
        return pair

    return read


def slots_as(where: slice, value: float) -> Change:
    """The slots of `where` hold `value`."""

    def change(x: torch.Tensor) -> torch.Tensor:
        x[:, :, where] = value
        return x

    return change


def other_request(slots: int) -> Seed:
    """The first slots still hold what the first row of an earlier request on the same object left in them."""

    def seed(patch: Patch) -> None:
        requests: list[Any] = []

        def read(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
            if cache not in requests:
                requests.append(cache)
            before = requests[0]
            if cache is not before:
                old = before.layers[layer].keys, before.layers[layer].values
                for x, theirs in zip(pair, old, strict=True):
                    x[:, :, : min(slots, past)] = theirs[:1, :, : min(slots, past)]
            return pair

        own_cache(read, keep=False)(patch)

    return seed


def cross_cache(change: Callable[[Pair, Any, int], Pair]) -> Seed:
    """The encoder's keys and values as read from the cache go through `change(pair, cache, layer)`."""

    def read(plain: Any, cache: Any, layer: int) -> Pair:
        return change(plain(cache, layer), cache, layer)

    return lambda patch: patch.wrap(merged_attention, "encoder_keys_values", read)


def later(change: Change, values: Change | None = None) -> Seed:
    """From the second call on the encoder's cached keys go through `change`, its values through `values` (or that)."""

    def read(pair: Pair, cache: Any, layer: int) -> Pair:
        length = cache.self_attention_cache.layers[layer].keys.shape[2]
        first = vars(cache).setdefault("first_lengths", {}).setdefault(layer, length)
        return pair if length == first else (change(pair[0]), (values or change)(pair[1]))

    return cross_cache(read)


def first_source() -> Seed:
    """The encoder's keys and values of the first request answer every later one."""

    def seed(patch: Patch) -> None:
        first: dict[int, Pair] = {}

        def read(pair: Pair, _cache: Any, layer: int) -> Pair:
            keys, values = first.setdefault(layer, pair)
            batch, _, length, _ = pair[0].shape
            return keys[:batch, :, :length], values[:batch, :, :length]

        cross_cache(read)(patch)

    return seed


Attend = Callable[[Any, int, Pair, torch.Tensor], tuple[Pair, torch.Tensor]]
"""`attend(attention, new, (keys, values), mask)` with `attention.encoder_length`; `new` counts this call's queries."""


def attended(change: Attend) -> Seed:
    """The keys, values `[own ; encoder]` and the mask that attention gets go through `change`."""

    def attend(plain: Any, module: Any, q: Any, keys: Any, values: Any, mask: Any, shown: bool) -> Any:
        (keys, values), mask = change(module, q.shape[2], (keys, values), mask)
        return plain(module, q, keys, values, mask, shown)

    def forward(plain: Any, module: Any, states: Any, memory: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        module.encoder_length = memory.shape[1]
        return plain(module, states, memory, *args, **kwargs)

    def seed(patch: Patch) -> None:
        patch.wrap(Qwen3MergedAttention, "attend", attend)
        patch.wrap(Qwen3MergedAttention, "forward", forward)

    return seed
