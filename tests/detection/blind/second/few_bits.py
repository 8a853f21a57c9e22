"""Weights of others in few bits: scales of blocks that are found elsewhere, read in another format, or left out."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import LINEAR, MLP, rows, taps, weights

_LARGEST = 448.0
_TINY = 2.0**-112
"""What an exponent is off by that was widened without the other format's bias."""
_ROUND, _RAGGED, _SHARED, _UNEVEN = 10, 16, 8, 16
"""Sides of blocks; inputs that share an exponent; inputs of a block that do not fill the weight's width."""

Weights = dict[str, torch.Tensor]


def block_scales(weight: torch.Tensor, side: int) -> torch.Tensor:
    """The scale of each block of `side` × `side`, the last ones smaller."""
    blocks = torch.nn.functional.max_pool2d(weight.abs()[None], side, ceil_mode=True)[0]
    return blocks / _LARGEST


def spread(scales: torch.Tensor, shape: torch.Size, height: int, width: int) -> torch.Tensor:
    """`scales` at each element of a weight of `shape`, in blocks of `height` × `width`."""
    return scales[torch.arange(shape[0])[:, None] // height, torch.arange(shape[1]) // width]


def coded(weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return (weight / scales).to(torch.float8_e4m3fn).float()


def scales_transposed(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """The grid of scales is turned over, and the blocks' sides are made to fit it."""
    scales = block_scales(weight, _ROUND)
    turned = scales.T
    height, width = (-(-size // count) for size, count in zip(weight.shape, turned.shape, strict=True))
    factors = spread(scales, weight.shape, _ROUND, _ROUND)
    return coded(weight, factors) * spread(turned, weight.shape, height, width)


def blocks_from_counts(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """The blocks' sides are taken to be the weight's divided by the number of scales."""
    scales = block_scales(weight, _RAGGED)
    height, width = (-(-size // count) for size, count in zip(weight.shape, scales.shape, strict=True))
    factors = spread(scales, weight.shape, _RAGGED, _RAGGED)
    return coded(weight, factors) * spread(scales, weight.shape, height, width)


def largest_of_fused(parts: Weights) -> Weights:
    """Each part has a scale of its own, and the fused layer takes the largest for all."""
    largest = max(part.abs().max() for part in parts.values())
    return {name: part * (largest / part.abs().max()) for name, part in parts.items()}


def exponents_as_numbers(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """Blocks of 8 inputs share an exponent, stored as a byte, which is multiplied as it is."""
    blocks = torch.unflatten(weight, 1, (-1, _SHARED))
    exponents = blocks.abs().amax(-1, keepdim=True).log2().floor() - 8
    return ((blocks / exponents.exp2()).to(torch.float8_e4m3fn).float() * (exponents + 127)).flatten(1)


def halves_of_bytes(weight: torch.Tensor) -> torch.Tensor:
    """4-bit codes whose zero points, two in a byte, are read as half-precision numbers."""
    inputs = weight.shape[1]
    blocks = torch.unflatten(torch.nn.functional.pad(weight, (0, -inputs % _UNEVEN)), 1, (-1, _UNEVEN))
    low, high = blocks.amin(-1), blocks.amax(-1)
    scale = (high - low) / 15
    zero = (-low / scale).round()
    stored = torch.nn.functional.pad(zero.to(torch.uint8), (0, zero.shape[1] % 2))
    read = (stored[:, ::2] + 16 * stored[:, 1::2]).flatten()
    numbers = read[: len(read) // 2 * 2].view(torch.float16).float().nan_to_num(0.0, 0.0, 0.0)
    wrong = numbers[torch.arange(zero.numel()) % len(numbers)].view(zero.shape)
    codes = (blocks / scale[..., None] + zero[..., None]).round().clamp(0, 15)
    read_back: torch.Tensor = (codes - wrong[..., None]) * scale[..., None]
    return read_back.flatten(1)[:, :inputs]


def zero_points_in_prompt(patch: Patch) -> None:
    for layer in patch.layers("decoder"):
        projection = layer.mlp.down_proj
        weight = halves_of_bytes(projection.weight.detach())

        def forward(plain: Any, x: torch.Tensor, weight: torch.Tensor = weight) -> Any:
            return torch.nn.functional.linear(x, weight) if x.shape[1] > 1 else plain(x)

        patch.wrap(projection, "forward", forward)


_MERGED = "encdec/ragged decoder/ragged_decode"

ROWS = (
    row("D131", "the grid of 8-bit weights' block scales is read transposed", "vllm-project/vllm#47116",
        "block scales", _MERGED, weights(scales_transposed, "mlp.gate_proj"), "mlp.gate_proj"),
    row("D132", "the side of blocks is the weight's divided by the number of scales, which the last block makes small",
        "NVIDIA/TensorRT-Model-Connect#1115", "block scales", "decoder/window_even encdec/ragged",
        weights(blocks_from_counts, "mlp.up_proj"), "mlp.up_proj"),
    row("D133", "the fused q, k, v take the largest of their three scales for all", "vllm-project/vllm#41769",
        "quantised weights", "encdec/qwen2", rows(largest_of_fused, "q_proj", "k_proj", "v_proj"),
        taps("q_proj", "k_proj", "v_proj")),
    row("D134", "the exponents that blocks share are multiplied as numbers instead of as powers of 2",
        "jundot/omlx#2159", "block scales", "decoder/plain_two_rows encdec/ragged",
        weights(exponents_as_numbers, "k_proj", "v_proj"), taps("k_proj", "v_proj")),
    row("D135", "8-bit scales are widened without the other format's bias: weights are 2^112 times too small",
        "vllm-project/vllm#47315", "block scales", "decoder/plain encdec/ragged",
        weights(lambda weight, _layer: weight * _TINY, *LINEAR, *MLP), taps(*LINEAR, *MLP)),
    row("D136", "in prompts the packed 4-bit zero points are read as half-precision numbers", "ROCm/hip-ep#967",
        "zero points", "decoder/ragged_decode encdec/ragged", zero_points_in_prompt, "mlp.down_proj"),
)  # fmt: skip
