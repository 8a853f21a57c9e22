"""Norms, rotations and activations in other forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from detection.honest.ours import Change, Patch, ours
from detection.honest.variation import Variation, float32_alone
from qwen3_encdec import merged_attention, rope
from qwen3_encdec.mlp import Qwen3MLP
from qwen3_encdec.norm import Qwen3RMSNorm
from qwen3_parity.recording.ours.network import EncoderDecoder

Tensor = torch.Tensor


def _norm(inverse: Callable[[Tensor, float], Tensor], before: float = 1.0) -> Change:
    """Norms with `inverse(x, eps)`, `[..., 1]`, as the reciprocal of the root; `x` is multiplied by `before` first."""

    def forward(self: Any, x: Tensor) -> Tensor:
        wide = x.float() * before
        normalised: Tensor = wide * inverse(wide, self.variance_epsilon * before**2)
        weighted: Tensor = self.weight * normalised.to(x.dtype)
        return weighted

    return lambda _runner: ((Qwen3RMSNorm, "forward", forward),)


def _mean_square(x: Tensor) -> Tensor:
    return x.square().mean(dim=-1, keepdim=True)


def _one_over_root(x: Tensor, eps: float) -> Tensor:
    return 1 / torch.sqrt(_mean_square(x) + eps)


def _from_norm(x: Tensor, eps: float) -> Tensor:
    return torch.rsqrt(torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() / x.shape[-1] + eps)


def _from_product(x: Tensor, eps: float) -> Tensor:
    return torch.rsqrt((x.unsqueeze(-2) @ x.unsqueeze(-1)).squeeze(-1) / x.shape[-1] + eps)


def _wide(x: Tensor, eps: float) -> Tensor:
    return torch.rsqrt(_mean_square(x.double()) + eps).float()


def _divided(_runner: EncoderDecoder) -> Iterable[Patch]:
    def forward(self: Any, x: Tensor) -> Tensor:
        wide = x.float()
        weighted: Tensor = self.weight * (wide / torch.sqrt(_mean_square(wide) + self.variance_epsilon)).to(x.dtype)
        return weighted

    return ((Qwen3RMSNorm, "forward", forward),)


def _weight_inside(_runner: EncoderDecoder) -> Iterable[Patch]:
    def forward(self: Any, x: Tensor) -> Tensor:
        weighted: Tensor = (self.weight * x) * torch.rsqrt(_mean_square(x) + self.variance_epsilon)
        return weighted

    return ((Qwen3RMSNorm, "forward", forward),)


def _rotation(apply: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Change:
    return lambda _runner: ((rope, "apply_rotary", apply), (merged_attention, "apply_rotary", apply))


def _complex(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """One complex product for a pair; cos and sin repeat in both halves."""
    half = x.shape[-1] // 2
    turn = torch.complex(cos[..., :half].float(), sin[..., :half].float()).unsqueeze(1)
    turned = torch.complex(x[..., :half].float(), x[..., half:].float()) * turn
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


def _halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Two products and a fused multiply-add for each half."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    c, s = cos[..., :half].unsqueeze(1), sin[..., :half].unsqueeze(1)
    return torch.cat((torch.addcmul(a * c, b, s, value=-1), torch.addcmul(b * c, a, s)), dim=-1)


def _tables(
    inv_freq: Tensor, position_ids: Tensor, dtype: torch.dtype, attention_factor: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The float32 angle, as it must be; its cos and sin, and their factor, in float64."""
    angles = (position_ids[..., None].float() * inv_freq.float()).double()
    doubled = torch.cat((angles, angles), dim=-1)
    cos, sin = doubled.cos() * attention_factor, doubled.sin() * attention_factor
    return cos.float().to(dtype), sin.float().to(dtype)


def _activation(act: Callable[[Tensor], Tensor]) -> Change:
    """SiLU as `act`, in float32 whatever the dtype, as torch's own."""

    def forward(self: Any, x: Tensor) -> Any:
        gate = self.gate_proj(x)
        return self.down_proj(act(gate.float()).to(gate.dtype) * self.up_proj(x))

    return lambda _runner: ((Qwen3MLP, "forward", forward),)


VARIATIONS = (
    Variation("norm_one_over_root", "1 / sqrt instead of rsqrt", ours(_norm(_one_over_root))),
    Variation("norm_divides", "x / sqrt(mean of squares + eps)", ours(_divided)),
    Variation("norm_from_length", "the mean of squares from the vector's length", ours(_norm(_from_norm))),
    Variation("norm_from_product", "the sum of squares as a product of x with itself", ours(_norm(_from_product))),
    Variation("norm_float64", "statistics in float64", ours(_norm(_wide))),
    Variation("norm_scaled_input", "x three times as large, eps nine times", ours(_norm(_one_over_root, 3.0))),
    Variation("norm_weight_inside", "the weight on x before it is normalised", ours(_weight_inside), float32_alone),
    Variation("rope_complex", "pairs turned as complex numbers", ours(_rotation(_complex)), float32_alone),
    Variation("rope_halves", "each half by itself, fused multiply-add", ours(_rotation(_halves)), float32_alone),
    Variation(
        "tables_float64",
        "cos and sin of the float32 angle in float64",
        ours(lambda _runner: ((rope, "rotary_tables", _tables),)),
    ),
    Variation("silu_sigmoid", "x times sigmoid(x)", ours(_activation(lambda x: x * torch.sigmoid(x)))),
    Variation("silu_tanh", "x / 2 (1 + tanh(x / 2))", ours(_activation(lambda x: x / 2 * (1 + torch.tanh(x / 2))))),
    Variation("silu_quotient", "x / (1 + exp(-x))", ours(_activation(lambda x: x / (1 + torch.exp(-x))))),
)
