"""A layer's keys and values in one buffer, the encoder's before the decoder's, so that a decode step copies none.

HF's `DynamicLayer` copies a layer's whole past at every step, and joining it to the encoder's keys would copy both.
Here a step writes its token into a spare slot. The slots are `[encoder ; decoder ; spare]`, while masks and weights
count the decoder's keys first: only its half grows, and a sum over all keys does not mind their order.
"""

from collections.abc import Callable
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from .graph_capture import capturing

Pair = tuple[torch.Tensor, torch.Tensor]
_SPARE = 64


class Room:
    """One buffer `[2, batch, kv_heads, slots, head_dim]` of keys and of values, and what stands in it.

    `memory` and `decoder` are views of the encoder's half and the decoder's, `both` of them together. There are 64
    slots to spare at first, or a quarter of those in use if that is more.
    """

    def __init__(self, memory: Pair, decoder: Pair) -> None:
        batch, heads, length, dim = decoder[0].shape
        self._first = memory[0].shape[2]
        self._used = self._first + length
        self._slots = self._used + max(_SPARE, self._used // 4)
        self._buffer = decoder[0].new_empty(2, batch, heads, self._slots, dim)
        self.memory = self._part(0, self._first)
        self._look()
        for place, tensor in zip((*self.memory, *self.decoder), (*memory, *decoder), strict=True):
            place.copy_(tensor)

    def _part(self, start: int, tokens: int) -> Pair:
        keys, values = self._buffer.narrow(3, start, tokens).unbind()
        return keys, values

    def _look(self) -> None:
        self.decoder = self._part(self._first, self._used - self._first)
        self.both = self._part(0, self._used)

    def takes(self, tokens: int, dtype: torch.dtype) -> bool:
        """Whether there are slots for new `tokens` of this dtype, and nothing forbids to write there.

        A backward pass may need what stands there now; what an inference mode made may be written to in one only.
        """
        return (
            tokens <= self._slots - self._used
            and dtype == self._buffer.dtype
            and not torch.is_grad_enabled()
            and (not self._buffer.is_inference() or torch.is_inference_mode_enabled())
        )

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write new keys and values, each `[batch, kv_heads, tokens, head_dim]`, behind the decoder's."""
        tokens = keys.shape[2]
        for place, tensor in zip(self._part(self._used, tokens), (keys, values), strict=True):
            place.copy_(tensor)
        self._used += tokens
        self._look()


class MergedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """A `DynamicLayer` that can hold the encoder's keys and values beside its own.

    What reorders, repeats or crops a cache leaves other tensors in `keys` and `values` than the buffer's. The next step
    then moves into a new buffer, so that nothing that somebody still holds is written over.
    """

    buffer: Room | None = None

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Pair:
        """Append `[batch, kv_heads, tokens, head_dim]`; returns all of the decoder's keys and values.

        In place once `beside` was called, except in a graph, which may be run on other caches.
        """
        if not capturing() and self.takes(key_states.shape[2], key_states.dtype):
            return self.append(key_states, value_states).decoder
        self.buffer = None
        return super().update(key_states, value_states)

    def takes(self, tokens: int, dtype: torch.dtype) -> bool:
        """Whether there is a buffer, holds what the layer holds, and takes so many new tokens."""
        buffer = self.buffer
        return (
            buffer is not None
            and self.keys is buffer.decoder[0]
            and self.values is buffer.decoder[1]
            and buffer.takes(tokens, dtype)
        )

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> Room:
        """Write new keys and values, each `[batch, kv_heads, tokens, head_dim]`, into the buffer, which takes them."""
        assert self.buffer is not None
        self.buffer.append(keys, values)
        self.keys, self.values = self.buffer.decoder
        return self.buffer

    def beside(self, memory: Pair) -> Room:
        """The buffer with the encoder's keys and values, `[batch, kv_heads, encoder, head_dim]`, beside the layer's.

        Those of the last call are not copied.
        """
        buffer = self.buffer
        if buffer is None or buffer.memory[0] is not memory[0] or buffer.memory[1] is not memory[1]:
            assert self.keys is not None and self.values is not None
            self.buffer = buffer = Room(memory, (self.keys, self.values))
            self.keys, self.values = buffer.decoder
        return buffer


def merged_layers(cache: DynamicCache) -> DynamicCache:
    """The empty cache with a `MergedLayer` in the place of each full layer that it has or would make."""
    merged_layer: Callable[[], MergedLayer] = MergedLayer
    cache.layers = [merged_layer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    if cache.layer_class_to_replicate is DynamicLayer:
        cache.layer_class_to_replicate = MergedLayer
    return cache
