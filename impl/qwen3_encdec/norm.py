"""RMSNorm, as Qwen3 uses it before every block, at the end of a stack and on every query and key head."""

import torch
from torch import nn


class Qwen3RMSNorm(nn.Module):
    """Root-mean-square normalisation of the last axis (Zhang & Sennrich 2019; mirrors HF `Qwen3RMSNorm`).

    `[..., hidden_size] -> [..., hidden_size]` in the input's dtype. Statistics are float32 (a float16 square overflows
    from 256 on) and the result is cast back *before* the weight is applied: weighting first would move bfloat16 and
    float16 results by one unit in the last place.
    """

    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Normalise the last axis; nothing is centred."""
        wide = hidden_states.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True)
        normed = wide * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * normed.to(hidden_states.dtype)

    def extra_repr(self) -> str:
        """Width and eps, for `repr`."""
        return f"{self.weight.numel()}, eps={self.variance_epsilon}"
