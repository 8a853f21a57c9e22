"""Activations of others in few bits: zero points, scales of blocks, and smoothing between norms and weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch

_FLOATS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
"""What 4-bit floats hold, but for the sign."""
_SHARED = 8
"""Channels that share a scale."""


def down(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """The decoder's down_proj reads `change(x)`."""

    def seed(patch: Patch) -> None:
        for layer in patch.layers("decoder"):

            def forward(plain: Any, x: torch.Tensor) -> Any:
                return plain(change(x))

            patch.wrap(layer.mlp.down_proj, "forward", forward)

    return seed


def zero_point_left(x: torch.Tensor) -> torch.Tensor:
    """Bytes from 0 to 255 are multiplied as they are."""
    low, high = x.min(), x.max()
    scale = (high - low) / 255
    zero = (-low / scale).round()
    return (x / scale + zero).round().clamp(0, 255) * scale


def exponent_too_small(x: torch.Tensor) -> torch.Tensor:
    """The power of 2 below a sixth of the largest is often too small by half: 6 times it clips."""
    blocks = torch.unflatten(torch.nn.functional.pad(x, (0, -x.shape[-1] % _SHARED)), -1, (-1, _SHARED))
    scale = (blocks.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 6).log2().floor().exp2()
    near = (blocks.abs() / scale)[..., None].sub(_FLOATS).abs().argmin(-1)
    rounded: torch.Tensor = blocks.sign() * _FLOATS[near] * scale
    return rounded.flatten(-2)[..., : x.shape[-1]]


def smoothed_for_one(patch: Patch) -> None:
    """The norm before the MLP is divided by the factors that gate is multiplied by; up reads it, too."""
    for layer in patch.layers("decoder"):
        norm, gate = layer.post_attention_layernorm.weight, layer.mlp.gate_proj.weight
        largest = gate.detach().abs().amax(0)
        factors = (largest.mean() / largest).square()
        patch.change(norm, norm.detach() / factors)
        patch.change(gate, gate.detach() * factors)


ROWS = (
    row("D137", "the zero point of 8-bit activations is never subtracted", "iree-org/iree#24583",
        "quantised activations", "decoder/ragged_decode encdec/ragged", down(zero_point_left), "mlp.down_proj"),
    row("D138", "the shared exponent of 4-bit activations is one too small: the largest are clipped",
        "vllm-project/vllm#43557", "quantised activations", "encdec/ragged decoder/plain", down(exponent_too_small),
        "mlp.down_proj"),
    row("D139", "a norm takes up the smoothing of one of the two layers that read it",
        "intel/neural-compressor#962", "smoothing", "decoder/plain_two_rows encdec/ragged", smoothed_for_one,
        "post_attention_layernorm mlp.gate_proj"),
)  # fmt: skip
