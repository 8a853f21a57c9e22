"""Merged attention out of an unmodified HF Qwen3: a cache that also returns the encoder's keys and values.

HF's attention asks its cache for "all keys and values so far". This one answers with the decoder's own and, behind
them, the encoder's, which HF's own k_proj, k_norm and v_proj (and apply_rotary_pos_emb) compute at the first request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

from qwen3_reference.binding import emit, encoder_half


@dataclass(frozen=True)
class Memory:
    """The encoder's final-normed output `[batch, key, hidden]`, and tables `[batch, key, head_dim]` if keys rotate."""

    hidden: torch.Tensor
    tables: tuple[torch.Tensor, torch.Tensor] | None


def encoder_keys_values(attention: nn.Module, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
    """A decoder layer's keys and values of the encoder, each `[batch, kv_heads, key, head_dim]`; no input_layernorm."""
    module: Any = attention
    shape = (*memory.hidden.shape[:2], -1, module.head_dim)
    with encoder_half():
        keys = module.k_proj(memory.hidden).view(shape)
        keys = (module.k_norm(keys) if hasattr(module, "k_norm") else keys).transpose(1, 2)
        values = module.v_proj(memory.hidden).view(shape).transpose(1, 2)
    if memory.tables is not None:
        keys, _ = apply_rotary_pos_emb(keys, keys, *memory.tables)
        emit(module, "encoder_key", keys)
    return keys, values


class MergedCache(DynamicCache):
    """HF's growing cache whose `update` returns `[own ; memory]`; `get_seq_length` counts the decoder's tokens alone.

    Made without a config on purpose: given one, HF's cache evicts keys on sliding layers. The window is in the masks.
    """

    def __init__(self, attentions: list[nn.Module], memory: Memory | None) -> None:
        super().__init__()
        self.attentions = attentions
        self.memory = memory
        self.encoder_states: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the decoder's `[batch, kv_heads, query, head_dim]`; give all keys and values, the encoder's last."""
        if self.memory is not None and layer_idx not in self.encoder_states:
            self.encoder_states[layer_idx] = encoder_keys_values(self.attentions[layer_idx], self.memory)
        keys, values = super().update(key_states, value_states, layer_idx, *args, **kwargs)
        if layer_idx not in self.encoder_states:
            return keys, values
        memory_keys, memory_values = self.encoder_states[layer_idx]
        return torch.cat([keys, memory_keys], dim=2), torch.cat([values, memory_values], dim=2)
