"""Rotary position embedding: tables computed on the fly from float32 angles, and their application."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import nn

DEFAULT_ROPE_THETA = 1_000_000.0


def check_rope_type(rope_parameters: Mapping[str, Any], field: str = "rope_parameters") -> None:
    """Refuse with a `ValueError` everything but plain RoPE over the whole head: no scaling is applied silently."""
    rope_type = rope_parameters.get("rope_type", rope_parameters.get("type", "default"))
    if rope_type != "default":
        raise ValueError(f"{field}['rope_type'] = {rope_type!r} is not supported; expected 'default'")
    factor = rope_parameters.get("partial_rotary_factor", 1.0)
    if factor != 1.0:
        raise ValueError(f"{field}['partial_rotary_factor'] = {factor!r} is not supported; expected 1.0")
    unknown = sorted(set(rope_parameters) - {"rope_type", "type", "rope_theta", "partial_rotary_factor"})
    if unknown:
        raise ValueError(f"{field} has keys that plain RoPE does not use: {', '.join(unknown)}; remove them")


def inverse_frequencies(dim: int, base: float, device: torch.device | None = None) -> torch.Tensor:
    """`base ** (-2i / dim)` for the pairs `i`, `[dim / 2]` float32, in HF's order of operations.

    Float32 throughout, whatever the model's dtype: in bfloat16 neighbouring positions would share a phase.
    """
    exponents = torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim
    return 1.0 / (base**exponents)


@torch.no_grad()
def rotary_tables(
    inv_freq: torch.Tensor, position_ids: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cos and sin `[batch, seq, dim]` for `position_ids [batch, seq]`: float32 angles, cast to `dtype` at the end.

    The two halves of the last axis repeat the same angles (pair `i` is components `i` and `i + dim / 2`).
    """
    angles = position_ids[..., None].to(torch.float32) * inv_freq.to(device=position_ids.device, dtype=torch.float32)
    doubled = torch.cat((angles, angles), dim=-1)
    return doubled.cos().to(dtype), doubled.sin().to(dtype)


class Qwen3RotaryEmbedding(nn.Module):
    """RoPE tables (Su et al. 2021; mirrors HF `Qwen3RotaryEmbedding`) for any position, without a stored table.

    `max_position_embeddings` is kept for the caller's information and bounds nothing. `rope_parameters`, when given,
    takes precedence over `base`; a `rope_type` other than `default` raises `ValueError`.
    """

    inv_freq: torch.Tensor

    def __init__(
        self,
        dim: int,
        max_position_embeddings: int = 32768,
        base: float = DEFAULT_ROPE_THETA,
        *,
        rope_parameters: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if dim <= 0 or dim % 2:
            raise ValueError(f"dim = {dim} must be a positive even number: RoPE rotates pairs")
        if rope_parameters is not None:
            check_rope_type(rope_parameters)
            base = rope_parameters.get("rope_theta", base)
        self.dim = dim
        self.max_position_embeddings = max_position_embeddings
        self.base = base
        self.register_buffer("inv_freq", inverse_frequencies(dim, base), persistent=False)

    def reset_inv_freq(self, device: torch.device) -> None:
        """Recompute the frequencies on `device`, for instance after construction on the meta device."""
        self.inv_freq = inverse_frequencies(self.dim, self.base, device)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.inv_freq.dtype != torch.float32:  # `model.to(bfloat16)` must not round the frequencies
            self.reset_inv_freq(self.inv_freq.device)
        return self

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`(cos, sin)`, each `[batch, seq, dim]` in the dtype of `x`, for `position_ids [batch, seq]`."""
        return rotary_tables(self.inv_freq, position_ids, x.dtype)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    """`[..., dim]`: the second half negated in front of the first, the quarter turn of pairs `(i, i + dim / 2)`."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate `x [batch, heads, seq, dim]` by tables `[batch, seq, dim]`, in the dtype of `x`."""
    return (x * cos.unsqueeze(1)) + (rotate_half(x) * sin.unsqueeze(1))


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate `q [batch, heads, seq, dim]` and `k [batch, kv_heads, seq, dim]` by tables `[batch, seq, dim]`."""
    return apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
