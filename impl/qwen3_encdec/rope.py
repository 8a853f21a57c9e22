"""Rotary position embedding: tables computed on the fly from float32 angles, and their application."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import nn

from .rope_scaling import YarnScaling, resolve_scaling, yarn_frequencies

DEFAULT_ROPE_THETA = 1_000_000.0


def inverse_frequencies(
    dim: int, base: float, device: torch.device | None = None, scaling: YarnScaling | None = None
) -> torch.Tensor:
    """`base ** (-2i / dim)` for the pairs `i`, `[dim / 2]` float32, in HF's order of operations; YaRN's with `scaling`.

    Float32 throughout, whatever the model's dtype: in bfloat16 neighbouring positions would share a phase.
    """
    if scaling is not None:
        return yarn_frequencies(dim, base, scaling, device)
    exponents = torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim
    return 1.0 / (base**exponents)


@torch.no_grad()
def rotary_tables(
    inv_freq: torch.Tensor, position_ids: torch.Tensor, dtype: torch.dtype, attention_factor: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cos and sin `[batch, seq, dim]` for `position_ids [batch, seq]`: float32 angles, cast to `dtype` at the end.

    The two halves of the last axis repeat the same angles (pair `i` is components `i` and `i + dim / 2`). Both tables
    are multiplied by YaRN's `attention_factor`, before the cast.
    """
    angles = position_ids[..., None].to(torch.float32) * inv_freq.to(device=position_ids.device, dtype=torch.float32)
    doubled = torch.cat((angles, angles), dim=-1)
    cos, sin = doubled.cos(), doubled.sin()
    if attention_factor != 1.0:
        cos, sin = cos * attention_factor, sin * attention_factor
    return cos.to(dtype), sin.to(dtype)


def tables_by_config(
    rope_parameters: Mapping[str, Any], dim: int, position_ids: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """The tables `[batch, seq, dim]` of a configuration's `rope_parameters`, for a layer that stands alone."""
    scaling = resolve_scaling(rope_parameters)
    inv_freq = inverse_frequencies(dim, rope_parameters["rope_theta"], position_ids.device, scaling)
    return rotary_tables(inv_freq, position_ids, dtype, 1.0 if scaling is None else scaling.attention_factor)


class Qwen3RotaryEmbedding(nn.Module):
    """RoPE tables (Su et al. 2021; mirrors HF `Qwen3RotaryEmbedding`) for any position, without a stored table.

    `max_position_embeddings` bounds nothing. `rope_parameters`, when given, takes precedence over `base` and may
    stretch the positions by YaRN; any other scaling raises `ValueError`.
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
        parameters = rope_parameters or {}
        self.scaling = resolve_scaling(parameters, max_position_embeddings=max_position_embeddings)
        self.attention_factor = 1.0 if self.scaling is None else self.scaling.attention_factor
        self.dim = dim
        self.max_position_embeddings = max_position_embeddings
        self.base = parameters.get("rope_theta", base)
        self.register_buffer("inv_freq", self.frequencies(), persistent=False)

    def frequencies(self, device: torch.device | None = None) -> torch.Tensor:
        """The frequencies `[dim / 2]` float32, made anew on `device`."""
        return inverse_frequencies(self.dim, self.base, device, self.scaling)

    def reset_inv_freq(self, device: torch.device) -> None:
        """Recompute the frequencies on `device`, for instance after construction on the meta device."""
        self.inv_freq = self.frequencies(device)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.inv_freq.dtype != torch.float32:  # `model.to(bfloat16)` must not round the frequencies
            self.reset_inv_freq(self.inv_freq.device)
        return self

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`(cos, sin)`, each `[batch, seq, dim]` in the dtype of `x`, for `position_ids [batch, seq]`."""
        return rotary_tables(self.inv_freq, position_ids, x.dtype, self.attention_factor)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    """`[..., dim]`: the second half negated in front of the first, the quarter turn of pairs `(i, i + dim / 2)`."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate `x [batch, heads, seq, dim]` by tables `[batch, seq, dim]`, in the dtype of `x` or a wider table's."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return x * cos + rotate_half(x) * sin


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate `q [batch, heads, seq, dim]` and `k [batch, kv_heads, seq, dim]` by tables `[batch, seq, dim]`."""
    return apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
