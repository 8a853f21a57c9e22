"""Weights of others: packed codes, zero points and scales that are read elsewhere, and shards of fused layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import rows, taps, weights

_INTERLEAVED = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
"""The output channel that each slot of a packed word stands for."""
_LARGEST = 448.0
_SUPER, _SUB = 256, 32
"""Inputs of a super-block, and of each block in it with a 6-bit scale and minimum."""

Codes = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""4-bit codes `[out, groups, inputs]`, their scales and zero points `[out, groups, 1]`."""


def coded(weight: torch.Tensor, size: int) -> Codes:
    """Groups of `size` inputs in 4 bits, 0 within each range."""
    groups = torch.unflatten(weight, 1, (-1, size))
    low, high = groups.amin(-1, keepdim=True).clamp(max=0), groups.amax(-1, keepdim=True).clamp(min=0)
    scale = (high - low) / 15
    zero = (-low / scale).round()
    return (groups / scale + zero).round().clamp(0, 15), scale, zero


def read(codes: Codes) -> torch.Tensor:
    values, scale, zero = codes
    return ((values - zero) * scale).flatten(1)


def zeros_not_interleaved(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """Zero points of 8 outputs lie in their order where the kernel takes them to be interleaved."""
    values, scale, zero = coded(weight, 10)
    moved = torch.empty_like(zero)
    for slot, channel in enumerate(_INTERLEAVED.tolist()):
        moved[channel::8] = zero[slot::8]
    return read((values, scale, moved))


def zero_wrapped(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """A zero point of 0 is packed as -1 in 4 bits, which is 15."""
    values, scale, zero = coded(weight, 4)
    return read((values, scale, torch.where(zero == 0, torch.full_like(zero, 15), zero)))


def first_shard_twice(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """Both ranks load the first rank's rows."""
    half = weight[: len(weight) // 2]
    return torch.cat((half, half))


def stacked_for_grouped(patch: Patch) -> None:
    """`[q ; k ; v]` is read as if each KV group had its query heads, its key head and its value head in a row."""
    config = patch.model.config
    groups, of_group = config.kv_heads, config.num_attention_heads // config.kv_heads

    def change(parts: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        heads = torch.cat([torch.unflatten(part, 0, (-1, config.head_dim)) for part in parts.values()])
        grouped = torch.unflatten(heads, 0, (groups, of_group + 2))
        cut = (grouped[:, :of_group], grouped[:, of_group : of_group + 1], grouped[:, of_group + 1 :])
        return {name: part.flatten(0, 2) for name, part in zip(parts, cut, strict=True)}

    rows(change, "q_proj", "k_proj", "v_proj")(patch)


def scale_rounded_late(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """Blocks of 10 inputs are divided by their scale, and multiplied by the next power of 2."""
    blocks = torch.unflatten(weight, 1, (-1, 10))
    scale = blocks.abs().amax(-1, keepdim=True) / _LARGEST
    return ((blocks / scale).to(torch.float8_e4m3fn).float() * scale.log2().ceil().exp2()).flatten(1)


def six_bits(scale: torch.Tensor, low: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and minima of 8 blocks as they are read: from the fifth block on at 12 bits each, one behind another.

    They lie so: of blocks 0 to 3 6 bits in a byte each, of the others 4 bits in the last four bytes and 2 above.
    """
    first, last = (scale[..., :4], low[..., :4]), (scale[..., 4:], low[..., 4:])
    stored = [part | (upper >> 4) << 6 for part, upper in zip(first, last, strict=True)]
    data = torch.cat((*stored, last[0] & 15 | (last[1] & 15) << 4), dim=-1)
    entries = torch.arange(4, 8)
    begin, shift = entries * 12 // 8, entries * 12 % 8
    entry = (data[..., begin] | data[..., (begin + 1).clamp(max=11)] << 8) >> shift
    return torch.cat((first[0], entry & 63), dim=-1), torch.cat((first[1], entry >> 6 & 63), dim=-1)


def sequential_scales(weight: torch.Tensor) -> torch.Tensor:
    """4-bit codes in super-blocks, the second half of whose scales and minima are read from the wrong bits."""
    blocks = torch.unflatten(weight, 1, (-1, _SUPER // _SUB, _SUB))
    low = -blocks.amin(-1).clamp(max=0)
    scale = (blocks.amax(-1).clamp(min=0) + low) / 15
    of_scale, of_low = (x.amax(-1, keepdim=True) / 63 for x in (scale, low))
    whole_scale, whole_low = (scale / of_scale).round().long(), (low / of_low).round().long()
    step = (whole_scale * of_scale)[..., None].clamp(min=1e-12)
    codes = ((blocks + (whole_low * of_low)[..., None]) / step).round().clamp(0, 15)
    read_scale, read_low = six_bits(whole_scale, whole_low)
    values: torch.Tensor = codes * (read_scale * of_scale)[..., None] - (read_low * of_low)[..., None]
    return values.flatten(1)


def codes_of_first_group(weight: torch.Tensor) -> torch.Tensor:
    """The place of a packed code is that within its group: each group has the first one's codes."""
    values, scale, zero = coded(weight, 8)
    return read((values[:, :1].expand_as(values), scale, zero))


def in_prompt(projection: Any, weight: torch.Tensor) -> Callable[..., torch.Tensor]:
    """Calls of several tokens multiply by `weight`, others as they should."""

    def forward(plain: Any, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = plain(x) if x.shape[1] == 1 else torch.nn.functional.linear(x, weight, projection.bias)
        return result

    return forward


def prompt_by_sequential_scales(patch: Patch) -> None:
    for layer in patch.layers("decoder"):
        for projection in (layer.mlp.gate_proj, layer.mlp.up_proj):
            weight = sequential_scales(projection.weight.detach())
            patch.wrap(projection, "forward", in_prompt(projection, weight))


def head_of_first_group(patch: Patch) -> None:
    weight = codes_of_first_group(patch.model.lm_head.weight.detach())
    patch.setattr(patch.model.lm_head, "forward", lambda x: torch.nn.functional.linear(x, weight))


_FUSED = ("q_proj", "k_proj", "v_proj")
_COLUMNS = (*_FUSED, "mlp.gate_proj", "mlp.up_proj")
_ENCODER_KV = "merged_attn.encoder_k_proj merged_attn.encoder_v_proj"
"""Where the decoder's weights serve the encoder's half, in cases that have it."""

ROWS = (
    row("E042", "zero points of 4-bit weights are repacked without the interleaving of outputs", "pie-project/pie#491",
        "zero points", "decoder/plain encdec/ragged", weights(zeros_not_interleaved, "o_proj", "mlp.down_proj"),
        taps("o_proj", "mlp.down_proj")),
    row("E043", "fused layers load the first rank's rows on every rank", "vllm-project/vllm-gguf-plugin#103",
        "tensor parallel", "decoder/ragged_decode encdec/ragged", weights(first_shard_twice, *_COLUMNS),
        taps(*_COLUMNS), also=_ENCODER_KV),
    row("E044", "q, k and v are stacked where each KV group's are expected in a row", "NVIDIA-NeMo/RL#2802",
        "converter", "decoder/plain_two_rows encdec/ragged", stacked_for_grouped, taps(*_FUSED),
        also=_ENCODER_KV),
    row("E045", "block scales are rounded up to powers of 2 behind the division by them",
        "huggingface/transformers#46763", "block scales", "decoder/window_chunks encdec/ragged",
        weights(scale_rounded_late, "v_proj", "mlp.up_proj"), taps("v_proj", "mlp.up_proj"), also=_ENCODER_KV),
    row("E046", "in prompts the 6-bit scales of a super-block's second half are read from the wrong bits",
        "paiml/trueno#182", "block scales", "decoder/multiples_of_256", prompt_by_sequential_scales,
        "mlp.gate_proj mlp.up_proj"),
    row("E047", "packed codes are looked up without their group: all groups have the first one's",
        "1bit-MONSTER/1bit-MONSTER#153", "quantised weights", "decoder/window_even encdec/ragged",
        head_of_first_group, "logits"),
    row("E048", "a zero point of 0 wraps around to 15", "ModelCloud/GPTQModel#2350", "zero points",
        "decoder/inputs_embeds encdec/ragged", weights(zero_wrapped, "o_proj"), taps("o_proj")),
)  # fmt: skip
