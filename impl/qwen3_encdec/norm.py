"""RMSNorm, as Qwen3 uses it before every block, at the end of a stack and on every query and key head."""

import math
from typing import Any

import torch
from torch import nn

_ONE_TOKEN = (1, 1)
_ZERO = torch.zeros((), device="cpu")


class Qwen3RMSNorm(nn.Module):
    """Root-mean-square normalisation of the last axis (Zhang & Sennrich 2019; mirrors HF `Qwen3RMSNorm`).

    `[..., hidden_size] -> [..., hidden_size]` in the input's dtype. Statistics are float32 (a float16 square overflows
    from 256 on) and the result is cast back *before* the weight is applied: weighting first would move bfloat16 and
    float16 results by one unit in the last place.

    For one token on the CPU, which is a decode step, `x / sqrt(mean(x²) + eps)` is computed as
    `√width x / hypot(|x|, √(width eps))`: four kernels with the weight, where torch's own `rms_norm` is eleven. It has
    HF's bits, which this form has not.
    """

    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def __setattr__(self, name: str, value: Any) -> None:
        """As every module's; whoever changes eps changes what is made from it."""
        super().__setattr__(name, value)
        if name == "variance_epsilon":
            self._floor = torch.tensor(math.sqrt(len(self.weight) * value), device="cpu")

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Normalise the last axis; nothing is centred."""
        dtype, shape, weight = hidden_states.dtype, hidden_states.shape, self.weight
        wide = hidden_states if dtype == torch.float32 else hidden_states.to(torch.float32)
        if hidden_states.is_cpu and shape[:2] == _ONE_TOKEN:
            length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
            normalised = torch.addcdiv(_ZERO, wide, torch.hypot(length, self._floor), value=math.sqrt(shape[-1]))
        elif dtype == weight.dtype == torch.float32:
            return nn.functional.rms_norm(wide, shape[-1:], weight, self.variance_epsilon)
        else:
            normalised = nn.functional.rms_norm(wide, shape[-1:], None, self.variance_epsilon)
        return (normalised if dtype == torch.float32 else normalised.to(dtype)) * weight

    def extra_repr(self) -> str:
        """Width and eps, for `repr`."""
        return f"{self.weight.numel()}, eps={self.variance_epsilon}"
