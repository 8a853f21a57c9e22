"""A layer's keys and values in one buffer, the encoder's before the decoder's, so that a decode step copies neither.

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
    """A buffer `[batch, kv_heads, slots, head_dim]` and its views `memory`, `own`, and `both` of them together.

    It has 64 slots to spare when it is made, or a quarter of those in use if that is more.
    """

    def __init__(self, memory: torch.Tensor, own: torch.Tensor) -> None:
        self._first, self._used = memory.shape[2], memory.shape[2] + own.shape[2]
        self._buffer = own.new_empty(*own.shape[:2], self._used + max(_SPARE, self._used // 4), own.shape[3])
        self.memory = self._buffer.narrow(2, 0, self._first).copy_(memory)
        self.own = self._buffer.narrow(2, self._first, own.shape[2]).copy_(own)
        self.both = self._buffer.narrow(2, 0, self._used)

    def takes(self, own: torch.Tensor | None, new: torch.Tensor) -> bool:
        """Whether `append` may write `new` behind `own`: what stands here, in the same dtype, with slots to spare.

        Nothing else may be written to what was made in an inference mode that has ended.
        """
        ended = self._buffer.is_inference() and not torch.is_inference_mode_enabled()
        spare = self._buffer.shape[2] - self._used
        return own is self.own and not ended and new.shape[2] <= spare and new.dtype == self._buffer.dtype

    def append(self, new: torch.Tensor) -> torch.Tensor:
        """Write `new [batch, kv_heads, tokens, head_dim]` behind `own`, which is returned with it."""
        self._buffer.narrow(2, self._used, new.shape[2]).copy_(new)
        self._used += new.shape[2]
        self.own = self._buffer.narrow(2, self._first, self._used - self._first)
        self.both = self._buffer.narrow(2, 0, self._used)
        return self.own


class MergedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """A `DynamicLayer` that can hold the encoder's keys and values beside its own.

    What reorders, repeats or crops a cache leaves other tensors in `keys` and `values` than the buffers' views. The
    next step then moves into new buffers, so that nothing that somebody still holds is written over.
    """

    rooms: tuple[Room, Room] | None = None

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Pair:
        """Append `[batch, kv_heads, tokens, head_dim]`; returns all of the decoder's keys and values.

        In place once `beside` was called, except where a backward pass or a graph may need what stands there now.
        """
        if self.rooms is not None and not torch.is_grad_enabled() and not capturing():
            keys, values = self.rooms
            if keys.takes(self.keys, key_states) and values.takes(self.values, value_states):
                self.keys, self.values = keys.append(key_states), values.append(value_states)
                return self.keys, self.values
        self.rooms = None
        return super().update(key_states, value_states)

    def beside(self, memory: Pair) -> tuple[Pair, Pair]:
        """`[encoder ; decoder]` keys and values, and the encoder's as they stand there; all are views of the buffers.

        `memory` are the encoder's, each `[batch, kv_heads, encoder, head_dim]`; those of the last call are not copied.
        """
        assert self.keys is not None and self.values is not None
        if self.rooms is None or self.rooms[0].memory is not memory[0] or self.rooms[1].memory is not memory[1]:
            self.rooms = Room(memory[0], self.keys), Room(memory[1], self.values)
            self.keys, self.values = (room.own for room in self.rooms)
        keys, values = self.rooms
        return (keys.both, values.both), (keys.memory, values.memory)


def merged_layers(cache: DynamicCache) -> DynamicCache:
    """The empty cache with a `MergedLayer` in the place of each full layer that it has or would make."""
    made: Callable[[], MergedLayer] = MergedLayer
    cache.layers = [made() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    if cache.layer_class_to_replicate is DynamicLayer:
        cache.layer_class_to_replicate = MergedLayer
    return cache
