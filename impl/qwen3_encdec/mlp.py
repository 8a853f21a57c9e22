"""The gated feed-forward block of both stacks."""

from collections.abc import Callable
from typing import cast

import torch
from torch import nn
from transformers.activations import ACT2FN

from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig


class Qwen3MLP(nn.Module):
    """SwiGLU (Shazeer 2020; mirrors HF `Qwen3MLP`): `down(act(gate(x)) * up(x))`, `[..., hidden] -> [..., hidden]`."""

    def __init__(self, config: Qwen3EncoderDecoderConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn: Callable[[torch.Tensor], torch.Tensor] = ACT2FN[config.hidden_act]

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Apply the block; the input of `down_proj` is `act(gate) * up`."""
        activated = self.act_fn(self.gate_proj(hidden_states))
        return cast(torch.Tensor, self.down_proj(activated * self.up_proj(hidden_states)))
