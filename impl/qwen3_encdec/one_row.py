"""A decode step of one row on the CPU: all layers of the decoder in one function, without their modules in between.

A product with one row reads its matrix at the memory's speed and drives everything else out of the processor's cache.
What follows runs cold: there a module's call takes 36 µs and a kernel 12 to 35, where they take 3 to 5 otherwise. So
what the layers compute stands here once more, between the same products, in as few steps as it can be said in.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import nn
from transformers.cache_utils import EncoderDecoderCache

from .backends import Mask, SdpaMask
from .caches import in_place
from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .merged_attention import Rotary
from .merged_cache import MergedLayer
from .plain_layers import Linear, plain_layers

_ZERO = torch.zeros((), device="cpu")


def decode_row(
    hidden_states: torch.Tensor,
    layers: Iterable[nn.Module],
    norm: nn.Module,
    masks: Sequence[Mask],
    position_embeddings: Rotary,
    cache: EncoderDecoderCache | None,
    config: Qwen3EncoderDecoderConfig,
) -> torch.Tensor | None:
    """The stream `[1, 1, hidden]` behind the layers and the final norm; None where the modules have to run.

    They have to unless this is one token of one row, a tensor of torch's own class on the CPU without autocast, and
    under SDPA without gradients and graphs, which is when there are `SdpaMask`s (of all heads); unless the cache grows
    in place, and `plain_layers` finds the modules plain. `masks` and the tables `[1, 1, head_dim]` are those of the
    layers. The new keys and values are in the cache afterwards, or nothing has happened.
    """
    if not all(_one_for_all_heads(mask) for mask in masks):  # first: a graph must not depend on the sizes below
        return None
    if type(hidden_states) is not torch.Tensor or not hidden_states.is_cpu or hidden_states.shape[:2] != (1, 1):
        return None
    if torch.is_autocast_enabled("cpu"):
        return None
    eps = config.rms_norm_eps
    rooms = [in_place(cache, layer_idx, 1, hidden_states.dtype) for layer_idx in range(len(masks))]
    plain = None if None in rooms else plain_layers(layers, norm, hidden_states.dtype, eps)
    if plain is None:
        return None

    stream = hidden_states.view(-1)
    scratch = _Scratch(stream, position_embeddings, config)
    queries, keys, values, branch = scratch.products
    for layer, room, mask in zip(plain[0], rooms, masks, strict=True):
        normed = _normed(stream, layer.input_layernorm, eps, branch)
        _product(layer.q_proj, normed, queries)
        _product(layer.k_proj, normed, keys)
        _product(layer.v_proj, normed, values)
        _turn(scratch, layer.head_norms)
        context = _attend(scratch, room, mask, layer.scaling)
        stream = stream + _product(layer.o_proj, context, branch)
        normed = _normed(stream, layer.post_attention_layernorm, eps, branch)
        gate, up = _product(layer.gate_proj, normed), _product(layer.up_proj, normed)  # of any width
        stream = stream + _product(layer.down_proj, layer.act(gate).mul_(up), branch)
    return _normed(stream, plain[1], eps, branch).view(1, 1, -1)


class _Scratch:
    """The buffers of a step, the same for every layer, with all their views, and what its position has in common.

    `products` are those of the projections to queries, keys and values, and one as wide as the stream; `heads` the
    queries' and keys' `[heads + kv_heads, dim]`, `straight` what is to be turned, `turned` its halves, exchanged.
    """

    def __init__(self, like: torch.Tensor, position_embeddings: Rotary, config: Qwen3EncoderDecoderConfig) -> None:
        heads, kv_heads, dim = config.num_attention_heads, config.kv_heads, config.head_dim
        half = dim // 2
        self.root = math.sqrt(dim)
        self.floor = like.new_full((), math.sqrt(dim * config.rms_norm_eps), dtype=torch.float32)
        projected = like.new_empty((heads + 2 * kv_heads) * dim)
        queries, keys, values = torch.split(projected, [heads * dim, kv_heads * dim, kv_heads * dim])
        self.products = queries, keys, values, torch.empty_like(like)
        self.heads = projected[: -kv_heads * dim].view(-1, dim)
        self.straight = torch.empty_like(self.heads) if config.use_qk_norm else self.heads
        self.straight_queries, self.straight_keys = self.straight[:heads], self.straight[heads:]
        self.halves = self.straight[:, half:], self.straight[:, :half]
        self.turned = torch.empty_like(self.heads)
        self.queries = queries.view(1, kv_heads, heads // kv_heads, dim)
        self.keys_values = projected[heads * dim :].view(2, 1, kv_heads, 1, dim)
        self.cos, sin = (table.view(dim) for table in position_embeddings)
        self.signed_sin = torch.cat((-sin[:half], sin[half:]))


def _product(linear: Linear, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """`W x + b` of `x [in]`, written to `out [out]` if given: the numbers of `Qwen3Linear`."""
    weight, bias = linear
    product = torch.mv(weight, x, out=out)
    return product if bias is None else product.add_(bias)


def _normed(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> torch.Tensor:
    """RMSNorm of `x [width]`, written to `out`, with the casts of `Qwen3RMSNorm`: two kernels where that has eleven."""
    wide = x if x.dtype == torch.float32 else x.to(torch.float32)  # to ask is cheaper than to cast to the same
    width = x.shape[0]
    scale = math.sqrt(width / (torch.dot(wide, wide).item() + width * eps))
    if wide is x:
        return torch.addcmul(_ZERO, wide, weight, value=scale, out=out)  # (scale · x) · weight, rounded twice as there
    return torch.mul(wide, scale, out=out).mul_(weight)


def _turn(scratch: _Scratch, head_norms: tuple[torch.Tensor, torch.Tensor] | None) -> None:
    """Norm each head (`√dim x / hypot(|x|, √(dim · eps))`) and rotate it: cos · x + sin · (its halves exchanged).

    The sine of the first half is negative, which is what `rotate_half` does to the half that comes to stand there.
    """
    heads, straight, turned = scratch.heads, scratch.straight, scratch.turned
    if head_norms is not None:
        wide = heads if heads.dtype == torch.float32 else heads.to(torch.float32)
        length = torch.hypot(torch.linalg.vector_norm(wide, dim=-1, keepdim=True), scratch.floor)
        torch.addcdiv(_ZERO, wide, length, value=scratch.root, out=straight)
        scratch.straight_queries.mul_(head_norms[0])
        scratch.straight_keys.mul_(head_norms[1])
    torch.cat(scratch.halves, dim=1, out=turned)
    torch.mul(straight, scratch.cos, out=heads).add_(turned.mul_(scratch.signed_sin))


def _attend(scratch: _Scratch, layer: MergedLayer | None, mask: Mask, scaling: float) -> torch.Tensor:
    """The context `[heads * dim]` of the queries in the cache with the new keys and values appended.

    The heads that share keys stand as rows of one product.
    """
    assert layer is not None and layer.room is not None and isinstance(mask, SdpaMask)
    layer.grow(1).copy_(scratch.keys_values)
    keys, values = layer.room.both
    attend = nn.functional.scaled_dot_product_attention
    return attend(scratch.queries, keys, values, mask.additive, scale=scaling).view(-1)


def _one_for_all_heads(mask: Mask) -> bool:
    return isinstance(mask, SdpaMask) and (mask.additive is None or mask.additive.shape[1] == 1)
