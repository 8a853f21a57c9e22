"""RoPE on neighbouring channels, with the weights permuted to fit, recorded as such code has it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from detection.honest.ours import Patch, ours
from detection.honest.variation import Variation
from qwen3_encdec import merged_attention, rope
from qwen3_parity.recording.ours.network import EncoderDecoder

Tensor = torch.Tensor


def _pairs(dim: int) -> Tensor:
    """Which channel of halves each channel of pairs is: 0, dim / 2, 1, dim / 2 + 1, …"""
    return torch.arange(dim).view(2, -1).T.reshape(-1)


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    there = _pairs(x.shape[-1])
    even, odd = x[..., ::2], x[..., 1::2]
    turned = torch.stack((-odd, even), dim=-1).flatten(-2)
    return x * cos[..., there].unsqueeze(1) + turned * sin[..., there].unsqueeze(1)


def _permute(parameter: Tensor | None, dim: int) -> nn.Parameter | None:
    """Heads of `[heads * dim, …]` from halves to pairs."""
    if parameter is None:
        return None
    heads = parameter.detach().view(-1, dim, *parameter.shape[1:])
    return nn.Parameter(heads[:, _pairs(dim)].flatten(0, 1))


def _permuted(runner: EncoderDecoder) -> Iterable[Patch]:
    layers = [*runner.model.encoder.layers, *runner.model.decoder.layers]
    for attention in (getattr(layer, "self_attn", None) or layer.merged_attn for layer in layers):
        names = ("q_proj", "k_proj", *(("q_norm", "k_norm") if attention.config.use_qk_norm else ()))
        for module in (getattr(attention, name) for name in names):
            module.weight = _permute(module.weight, attention.head_dim)
            if getattr(module, "bias", None) is not None:
                module.bias = _permute(module.bias, attention.head_dim)
    return ((rope, "apply_rotary", _turn), (merged_attention, "apply_rotary", _turn))


VARIATIONS = (
    Variation(
        "rope_interleaved",
        "neighbouring channels turn together, with weights permuted to fit",
        ours(_permuted),
    ),
)
