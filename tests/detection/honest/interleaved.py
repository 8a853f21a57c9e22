"""RoPE on neighbouring channels, with the weights permuted to fit: equal to halves, once put back in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from detection.honest.ours import Patch, ours
from detection.honest.variation import Variation
from qwen3_encdec import merged_attention, rope
from qwen3_golden import pb
from qwen3_parity.recording.ours.network import EncoderDecoder

Tensor = torch.Tensor
_TURNED = ("q_proj", "q_norm", "q_rope", "k_proj", "k_norm", "k_rope", "cache_keys", "encoder_keys")
"""How the names of taps end whose heads are laid out in pairs."""


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
    apart = parameter.detach().view(-1, dim, *parameter.shape[1:])
    return nn.Parameter(apart[:, _pairs(dim)].flatten(0, 1))


def _permuted(runner: EncoderDecoder) -> Iterable[Patch]:
    layers = [*runner.model.encoder.layers, *runner.model.decoder.layers]
    for attention in (getattr(layer, "self_attn", None) or layer.merged_attn for layer in layers):
        names = ("q_proj", "k_proj", *(("q_norm", "k_norm") if attention.config.use_qk_norm else ()))
        for module in (getattr(attention, name) for name in names):
            module.weight = _permute(module.weight, attention.head_dim)
            if getattr(module, "bias", None) is not None:
                module.bias = _permute(module.bias, attention.head_dim)
    return ((rope, "apply_rotary", _turn), (merged_attention, "apply_rotary", _turn))


def _in_halves(case: pb.Case, name: str, _step: int, value: Any) -> Iterable[tuple[str, Any]]:
    if not name.endswith(_TURNED):
        return ((name, value),)
    back = _pairs(case.config.head_dim).argsort()
    apart = value.unflatten(-1, (-1, case.config.head_dim))[..., back]
    return ((name, apart.flatten(-2)),)


VARIATIONS = (
    Variation(
        "rope_interleaved",
        "neighbouring channels turn together, with weights permuted to fit",
        ours(_permuted, see=_in_halves),
    ),
)
