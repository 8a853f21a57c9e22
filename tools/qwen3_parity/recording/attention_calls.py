"""What calls of torch's scaled_dot_product_attention show: rotated queries and keys, caches, the mask, the context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from qwen3_golden import pb
from qwen3_reference.torch_tensors import visible


@dataclass(frozen=True)
class Call:
    """What a call was given and gave.

    query and context `[batch, heads, query, head_dim]`, key and value `[batch, kv_heads, key, head_dim]` or repeated
    for each query head, mask bool `[batch, query, key]`, True = visible.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor
    context: torch.Tensor


class Attention(TorchFunctionMode):
    """Inside, `take(call)` gets every call of torch's scaled_dot_product_attention whose tensors have four axes."""

    def __init__(self, take: Callable[[Call], None]) -> None:
        super().__init__()
        self.take = take

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the function as it is, and hand over a call of attention."""
        result = func(*args, **(kwargs or {}))
        if func is scaled_dot_product_attention and not torch.compiler.is_compiling():
            passed = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False))
            passed |= kwargs or {}
            query, key = passed["query"], passed["key"]
            if query.ndim == 4:
                mask = passed.get("attn_mask")
                if passed.get("is_causal"):  # torch's own is aligned at the first query and the first key
                    mask = torch.ones(1, 1, query.shape[2], key.shape[2], dtype=torch.bool).tril()
                elif mask is not None:
                    mask = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape)).cpu()
                self.take(Call(query, key, passed["value"], visible(mask, query, key), result))
        return result


def plain_call(call: Call, config: pb.ModelConfig, sizes: Mapping[str, int], earlier: Call | None) -> Call:
    """A call as the taps have it: heads in their place, keys and values not repeated, every slot of the cache.

    `sizes` are those of the axes in this forward, see `layout.sizes_of`; `earlier` is the layer's plain call in the
    forward before. A call in a layout of its own stays as it is in what is not recognised.
    """
    call = _written(_unpacked(call, config, sizes), sizes)
    keys, values = (_without_repeats(item, config) for item in (call.key, call.value))
    return _with_dropped_slots(replace(call, key=keys, value=values), sizes, earlier)


def taps_of(call: Call, sizes: Mapping[str, int]) -> dict[str, tuple[torch.Tensor, tuple[str, ...]]]:
    """The last word of each tap's name -> what a plain call shows of it, and the axes that it must have."""
    query, key = ("batch", "heads", "query", "head_dim"), ("batch", "kv_heads", "key", "head_dim")
    taps = {
        "q_rope": (call.query, query),
        "context": (call.context, query),
        "k_rope": (call.key, key),
        "cache_keys": (call.key, key),
        "cache_values": (call.value, key),
        "mask": (call.mask, ("batch", "query", "key")),
    }
    if call.key.ndim == 4 and call.key.shape[2] == sizes["key"]:  # the last ones are those of this forward
        taps["k_rope"] = (call.key[:, :, -sizes["query"] :], ("batch", "kv_heads", "query", "head_dim"))
    return taps


def _unpacked(call: Call, config: pb.ModelConfig, sizes: Mapping[str, int]) -> Call:
    """A call in which the query heads of a key stand as positions, with the heads in their place again.

    Hugging Face's SDPA does so where there is a single query and a mask: keys need no repeats then. A key that some of
    the heads do not see is not visible.
    """
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    packed = (kv_heads, heads // kv_heads)
    if sizes["query"] != 1 or heads == kv_heads or call.query.shape[1:3] != packed or call.key.shape[1] != kv_heads:
        return call
    query, context = (item.reshape(len(item), heads, 1, item.shape[-1]) for item in (call.query, call.context))
    return replace(call, query=query, context=context, mask=call.mask.all(1, keepdim=True))


def _written(call: Call, sizes: Mapping[str, int]) -> Call:
    """A call without the slots behind the last that is in use, which a cache of fixed length has and the mask hides."""
    slots = sizes["key"]
    if call.mask.shape[-1] <= slots or call.mask[..., slots:].any():
        return call
    return replace(call, key=call.key[..., :slots, :], value=call.value[..., :slots, :], mask=call.mask[..., :slots])


def _with_dropped_slots(call: Call, sizes: Mapping[str, int], earlier: Call | None) -> Call:
    """A call on a cache that has dropped the slots before a window, with these as the forward before had them, hidden.

    Where the slots that both have differ, the call stays as it is: then they are not in the order of positions.
    """
    dropped, both = sizes["key"] - call.key.shape[2], call.key.shape[2] - sizes["query"]
    if earlier is None or min(dropped, both) < 0 or dropped == 0 or earlier.key.shape[2] != dropped + both:
        return call
    pairs = ((earlier.key, call.key), (earlier.value, call.value))
    if any(a.shape[:2] != b.shape[:2] or not torch.equal(a[:, :, dropped:], b[:, :, :both]) for a, b in pairs):
        return call
    keys, values = (torch.cat([a[:, :, :dropped], b], 2) for a, b in pairs)
    return replace(call, key=keys, value=values, mask=functional.pad(call.mask, (dropped, 0)))


def _without_repeats(key: torch.Tensor, config: pb.ModelConfig) -> torch.Tensor:
    """Keys or values `[batch, kv_heads, key, head_dim]` from those repeated for each query head, bit for bit.

    Repeats stand side by side, or wrongly one round of heads behind the other: then the rounds are undone, too, and
    what attention makes of them is judged. As they are where the heads are no repeats.
    """
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    if key.ndim != 4 or key.shape[1] != heads or heads == kv_heads:
        return key
    beside, rounds = key[:, :: heads // kv_heads], key[:, :kv_heads]
    if torch.equal(beside.repeat_interleave(heads // kv_heads, 1), key):
        return beside
    return rounds if torch.equal(rounds.repeat(1, heads // kv_heads, 1, 1), key) else key
