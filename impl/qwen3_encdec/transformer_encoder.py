"""The classic Transformer encoder (Vaswani et al. 2017): learned positions, LayerNorm before or after each branch."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .classic_attention import ATTENTIONS, eager_attention
from .inputs import check_ids

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": nn.functional.gelu,
    "relu": nn.functional.relu,
}
"""gelu is the exact one (with erf), as in torch and BERT; the tanh form differs by up to 5e-4."""


class MultiHeadSelfAttention(nn.Module):
    """Self-attention with one fused projection; mirrors `torch.nn.MultiheadAttention` and HF `BertSelfAttention`.

    The rows of `qkv_proj` are those of q, then k, then v, each `d_model` rows, head by head, as torch's
    `in_proj_weight`. `ValueError` unless `d_model` is a multiple of `num_heads`.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.1, bias: bool = True) -> None:
        super().__init__()
        if num_heads < 1 or d_model % num_heads:
            raise ValueError(f"d_model = {d_model} must be a positive multiple of num_heads = {num_heads}")
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.qkv_proj = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.attention = ATTENTIONS["eager"]

    def split_heads(self, qkv: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Query, key and value, each `[batch, heads, seq, head_dim]`, of the projection `[batch, seq, 3 * d_model]`."""
        parts = qkv.view(*qkv.shape[:2], 3, self.num_heads, self.head_dim)
        return parts.permute(2, 0, 3, 1, 4).unbind()

    def forward(
        self, x: torch.Tensor, key_padding_mask: torch.Tensor | None = None, return_attention: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """`x [batch, seq, d_model]` to the same shape, and the weights `[batch, heads, query, key]` when asked for.

        `key_padding_mask [batch, seq]` bool, True = padding, which no query sees. A row that is all padding attends to
        every key alike, and stays finite. `ValueError` for another shape or dtype.
        """
        batch, length, width = x.shape
        query, key, value = self.split_heads(self.qkv_proj(x))
        hidden = None
        if key_padding_mask is not None:
            _check_padding(key_padding_mask, batch, length)
            hidden = key_padding_mask[:, None, None]
        attend = eager_attention if return_attention else self.attention
        context, weights = attend(query, key, value, hidden, self.dropout)
        context = context.transpose(1, 2).reshape(batch, length, width)
        return self.out_proj(context), weights if return_attention else None


def _check_padding(mask: torch.Tensor, batch: int, length: int) -> None:
    if mask.dtype != torch.bool or tuple(mask.shape) != (batch, length):
        raise ValueError(
            f"key_padding_mask has shape {tuple(mask.shape)} and dtype {mask.dtype}; "
            f"expected ({batch}, {length}) bool, True = padding"
        )


class PositionWiseFeedForward(nn.Module):
    """`linear2(dropout(activation(linear1(x))))`, `[batch, seq, d_model]` in and out, `d_ff` wide between."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1, activation: str = "gelu") -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation = {activation!r} is not known; expected {' or '.join(ACTIVATIONS)}")
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[batch, seq, d_model]` to the same shape."""
        result: torch.Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return result


class TransformerEncoderBlock(nn.Module):
    """Attention and feed-forward, each with a residual and a LayerNorm; mirrors `torch.nn.TransformerEncoderLayer`.

    With `pre_norm` (`norm_first` there) a branch reads the normed stream, without it the sum is normed, as in HF
    `BertLayer`. `layer_norm_eps` is torch's 1e-5; BERT has 1e-12.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        activation: str = "gelu",
        pre_norm: bool = True,
        *,
        layer_norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.self_attn = MultiHeadSelfAttention(d_model, num_heads, dropout)
        self.feed_forward = PositionWiseFeedForward(d_model, d_ff, dropout, activation)
        self.norm1 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.norm2 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: torch.Tensor, key_padding_mask: torch.Tensor | None = None, return_attention: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As `MultiHeadSelfAttention.forward`."""
        branch, weights = self.self_attn(self.norm1(x) if self.pre_norm else x, key_padding_mask, return_attention)
        x = x + self.dropout(branch)
        if self.pre_norm:
            return x + self.dropout(self.feed_forward(self.norm2(x))), weights
        x = self.norm1(x)
        return self.norm2(x + self.dropout(self.feed_forward(x))), weights


class TransformerEncoder(nn.Module):
    """A stack of blocks on token embeddings, scaled by the root of `d_model`, plus learned positions.

    Pre-norm stacks end with a LayerNorm, post-norm blocks already do. `scale_embeddings=False` leaves the scale out.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int = 512,
        num_heads: int = 8,
        num_layers: int = 6,
        d_ff: int = 2048,
        max_len: int = 512,
        dropout: float = 0.1,
        activation: str = "gelu",
        pre_norm: bool = True,
        *,
        layer_norm_eps: float = 1e-5,
        scale_embeddings: bool = True,
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, d_model)
        self.embed_positions = nn.Embedding(max_len, d_model)
        self.scale = math.sqrt(d_model) if scale_embeddings else 1.0
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            TransformerEncoderBlock(
                d_model, num_heads, d_ff, dropout, activation, pre_norm, layer_norm_eps=layer_norm_eps
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(d_model, eps=layer_norm_eps) if pre_norm else None

    def set_attn_implementation(self, name: str) -> None:
        """Compute attention in the way of this name in `ATTENTIONS`; `ValueError` for another one."""
        if name not in ATTENTIONS:
            raise ValueError(f"attention {name!r} is not known; expected {' or '.join(ATTENTIONS)}")
        for module in self.modules():
            if isinstance(module, MultiHeadSelfAttention):
                module.attention = ATTENTIONS[name]

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        return_all_hidden_states: bool = False,
    ) -> dict[str, Any]:
        """`last_hidden_state [batch, seq, d_model]`, and `all_hidden_states`: the embeddings, then each block's output.

        The last of them is after the final norm. `input_ids [batch, seq]`; `attention_mask [batch, seq]`, nonzero = a
        real token; position i is slot i, padding or not. `ValueError` for ids outside the vocabulary, more than
        `max_len` slots and a mask of another shape.
        """
        check_ids(input_ids, self.embed_tokens.num_embeddings, "input_ids")
        length, limit = input_ids.shape[1], self.embed_positions.num_embeddings
        if length > limit:
            raise ValueError(f"input_ids has {length} slots; expected at most max_len = {limit}")
        if attention_mask is not None and attention_mask.shape != input_ids.shape:
            raise ValueError(
                f"attention_mask has shape {tuple(attention_mask.shape)}; expected {tuple(input_ids.shape)}"
            )
        padding = None if attention_mask is None else attention_mask == 0
        positions = self.embed_positions(torch.arange(length, device=input_ids.device))
        x = self.dropout(self.embed_tokens(input_ids) * self.scale + positions)
        states = [x]
        for layer in self.layers:
            x, _ = layer(x, padding)
            states.append(x)
        if self.norm is not None:
            x = self.norm(x)
            states[-1] = x
        return {
            "last_hidden_state": x,
            "all_hidden_states": tuple(states) if return_all_hidden_states else None,
        }
