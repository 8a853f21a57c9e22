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

from .attention import sdpa_attention
from .backends import Mask, SdpaMask
from .caches import in_place
from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .merged_attention import Rotary
from .plain_layers import Linear, plain_layers

_ZERO = torch.zeros((), device="cpu")


def decode_row(
    hidden_states: torch.Tensor,
    layers: Iterable[nn.Module],
    masks: Sequence[Mask],
    position_embeddings: Rotary,
    cache: EncoderDecoderCache | None,
    config: Qwen3EncoderDecoderConfig,
) -> torch.Tensor | None:
    """The stream `[1, 1, hidden]` behind the last layer, of that before the first; None where the modules have to run.

    They have to unless this is one token of one row on the CPU without autocast, and under SDPA without gradients and
    graphs, which is when there are `SdpaMask`s; unless the cache grows in place, and nothing is found in the layers by
    `plain_layers`. `masks` and the tables `[1, 1, head_dim]` are those of the layers. The new keys and values are in
    the cache afterwards, or nothing has happened.
    """
    if not all(isinstance(mask, SdpaMask) for mask in masks):  # first: a graph must not depend on the sizes
        return None
    if hidden_states.shape[:2] != (1, 1) or torch.is_autocast_enabled("cpu"):
        return None
    dtype = hidden_states.dtype
    rooms = [in_place(cache, layer_idx, 1, dtype) for layer_idx in range(len(masks))]
    plain = None if None in rooms else plain_layers(layers, dtype, config.rms_norm_eps)
    if plain is None:
        return None

    dim, heads, kv_heads = config.head_dim, config.num_attention_heads, config.kv_heads
    row = hidden_states.new_empty((heads + 2 * kv_heads) * dim)
    queries, keys, values = torch.split(row, [heads * dim, kv_heads * dim, kv_heads * dim])
    turned = row[: (heads + kv_heads) * dim].view(-1, dim)
    as_queries, as_keys, as_values = (x.view(1, -1, 1, dim) for x in (queries, keys, values))
    gate, up = hidden_states.new_empty(2, config.intermediate_size)
    branch = hidden_states.new_empty(config.hidden_size)
    cos, sin = (table.view(dim) for table in position_embeddings)
    signed_sin = torch.cat((-sin[: dim // 2], sin[dim // 2 :]))
    floor = torch.tensor(math.sqrt(dim * config.rms_norm_eps), device="cpu")

    stream = hidden_states.view(-1)
    for layer, room, mask in zip(plain, rooms, masks, strict=True):
        assert room is not None and isinstance(mask, SdpaMask)
        normed = _normed(stream, layer.input_layernorm, config.rms_norm_eps)
        _product(layer.q_proj, normed, queries)
        _product(layer.k_proj, normed, keys)
        _product(layer.v_proj, normed, values)
        straight = turned if layer.head_norms is None else _normed_heads(turned, heads, *layer.head_norms, floor)
        # Half a turn of the axis by the sine whose first half is negative: what `rotate_half` times the sine is.
        torch.add(straight * cos, straight.roll(dim // 2, -1).mul_(signed_sin), out=turned)
        all_keys, all_values = room.append(as_keys, as_values).both
        context = sdpa_attention(as_queries, all_keys, all_values, mask.additive, layer.scaling)
        stream = stream + _product(layer.o_proj, context.view(-1), branch)
        normed = _normed(stream, layer.post_attention_layernorm, config.rms_norm_eps)
        _product(layer.gate_proj, normed, gate)
        _product(layer.up_proj, normed, up)
        stream = stream + _product(layer.down_proj, layer.act(gate).mul_(up), branch)
    return stream.view(1, 1, -1)


def _product(linear: Linear, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """`W x + b` of `x [in]`, written to `out [out]`: the numbers of `Qwen3Linear`."""
    weight, bias = linear
    torch.mv(weight, x, out=out)
    return out if bias is None else out.add_(bias)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.float32 else x.to(torch.float32)  # the question is cheaper than a cast to the same


def _normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm of `x [width]`, with the casts of `Qwen3RMSNorm`: two kernels in float32, where that has eleven."""
    width, wide = len(weight), _wide(x)
    scale = math.sqrt(width / (torch.dot(wide, wide).item() + width * eps))
    if wide is x:
        return torch.addcmul(_ZERO, wide, weight, value=scale)  # (scale · x) · weight, rounded twice as there
    return (wide * scale).to(x.dtype) * weight


def _normed_heads(
    x: torch.Tensor, heads: int, query_weight: torch.Tensor, key_weight: torch.Tensor, floor: torch.Tensor
) -> torch.Tensor:
    """RMSNorm of each row of `x [heads + kv_heads, dim]`, `√dim x / hypot(|x|, floor)`, `floor = √(dim · eps)` 0-d."""
    wide = _wide(x)
    length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    normed = torch.addcdiv(_ZERO, wide, torch.hypot(length, floor), value=math.sqrt(x.shape[-1]))
    normed = normed if wide is x else normed.to(x.dtype)
    normed[:heads].mul_(query_weight)
    normed[heads:].mul_(key_weight)
    return normed
