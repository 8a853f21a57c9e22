"""What both attentions share: grouped heads, the eager arithmetic, and the projections around it."""

from typing import Any, cast

import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .backends import Mask, SdpaMask, implementation
from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .norm import Qwen3RMSNorm


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """`[batch, kv_heads, seq, dim] -> [batch, kv_heads * n_rep, seq, dim]`, each head repeated consecutively."""
    return x if n_rep == 1 else x.repeat_interleave(n_rep, dim=1)


def scaled_scores(query: torch.Tensor, key: torch.Tensor, scaling: float, groups: int) -> torch.Tensor:
    """`query [batch, heads, query, dim]` against `key [batch, kv_heads, key, dim]`: `[batch, heads, query, key]`."""
    return torch.matmul(query, repeat_kv(key, groups).transpose(2, 3)) * scaling


def probabilities(scores: torch.Tensor, attention_mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """Softmax over the keys of scores with an additive mask added, `[batch, heads, query, key]`.

    In float32 whatever the scores' dtype (a bfloat16 sum over many keys loses the tail), then cast to `dtype`.
    """
    masked = scores if attention_mask is None else scores + attention_mask
    if masked.dtype == torch.float64:  # its mask is -inf in float32, and a row that sees no key would be NaN
        masked = masked.clamp(min=torch.finfo(torch.float32).min)
    return nn.functional.softmax(masked, dim=-1, dtype=torch.float32).to(dtype)


def weighted_values(probs: torch.Tensor, value: torch.Tensor, groups: int) -> torch.Tensor:
    """`probs [batch, heads, query, key]` times `value [batch, kv_heads, key, dim]`: `[batch, query, heads, dim]`."""
    return torch.matmul(probs, repeat_kv(value, groups)).transpose(1, 2).contiguous()


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scaled dot-product attention written out (Vaswani et al. 2017), in HF's order of operations.

    `query [batch, heads, query, dim]`, `key` and `value [batch, kv_heads, key, dim]`, additive `attention_mask`
    broadcastable to `[batch, heads, query, key]`; returns the context `[batch, query, heads, dim]` and the
    probabilities `[batch, heads, query, key]`.
    """
    groups = cast(int, module.num_key_value_groups)
    probs = probabilities(scaled_scores(query, key, scaling, groups), attention_mask, query.dtype)
    probs = nn.functional.dropout(probs, p=dropout, training=module.training)
    return weighted_values(probs, value, groups), probs


def sdpa_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
) -> torch.Tensor:
    """SDPA without repeated keys: with one query a row, the heads that share keys stand as rows of one product.

    Several queries under a mask get the keys repeated, as HF does it: few kernels take a mask and shared keys at once.

    `query [batch, heads, query, dim]`, `key` and `value [batch, kv_heads, key, dim]`, additive `attention_mask
    [batch, 1 or heads, query, key]` or None; returns the context `[batch, query, heads * dim]`.
    """
    batch, heads, queries, dim = query.shape
    groups = key.shape[1]
    if queries == 1:
        if attention_mask is not None and attention_mask.shape[1] == heads:
            attention_mask = attention_mask.reshape(batch, groups, heads // groups, -1)
        context = nn.functional.scaled_dot_product_attention(
            query.view(batch, groups, heads // groups, dim), key, value, attention_mask, dropout, scale=scaling
        )
        return context.view(batch, 1, heads * dim)
    shared = attention_mask is None and groups < heads
    if not shared:
        key, value = repeat_kv(key, heads // groups), repeat_kv(value, heads // groups)
    context = nn.functional.scaled_dot_product_attention(
        query, key, value, attention_mask, dropout, scale=scaling, enable_gqa=shared
    )
    return context.transpose(1, 2).reshape(batch, queries, heads * dim)


class ProjectedAttention(nn.Module):
    """Projections, QK-norm and output of one layer; what is attended to is left to the subclass.

    `is_causal` is False for every subclass: masks are always passed explicitly, no backend may add its own.
    """

    def __init__(self, config: Qwen3EncoderDecoderConfig, layer_idx: int = 0) -> None:
        super().__init__()
        if not 0 <= layer_idx < config.num_hidden_layers:
            raise ValueError(
                f"layer_idx = {layer_idx} is not in 0 … num_hidden_layers - 1 = {config.num_hidden_layers - 1}"
            )
        self.config = config
        self.layer_idx = layer_idx
        self.use_qk_norm = config.use_qk_norm
        self.head_dim = config.head_dim
        self.attention_width = config.num_attention_heads * config.head_dim
        self.num_key_value_groups = config.num_attention_heads // config.kv_heads
        self.scaling = config.head_dim**-0.5
        self.attention_dropout = config.attention_dropout
        self.is_causal = False
        self.layer_type = config.layer_type(layer_idx)
        self.sliding_window = config.window(self.layer_type)
        key_width = config.kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, self.attention_width, bias=config.attention_bias)
        self.k_proj = nn.Linear(config.hidden_size, key_width, bias=config.attention_bias)
        self.v_proj = nn.Linear(config.hidden_size, key_width, bias=config.attention_bias)
        self.o_proj = nn.Linear(self.attention_width, config.hidden_size, bias=config.attention_out_bias)
        if self.use_qk_norm:  # over head_dim, per head; Qwen2 has none, and then the modules do not exist
            self.q_norm = Qwen3RMSNorm(config.head_dim, eps=config.rms_norm_eps)
            self.k_norm = Qwen3RMSNorm(config.head_dim, eps=config.rms_norm_eps)

    def _split_heads(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, width // self.head_dim, self.head_dim)  # not -1: ambiguous for an empty encoder

    def query_heads(self, projected: torch.Tensor) -> torch.Tensor:
        """`[batch, query, heads * head_dim] -> [batch, heads, query, head_dim]`, normed per head, not yet rotated."""
        queries = self._split_heads(projected)
        return (self.q_norm(queries) if self.use_qk_norm else queries).transpose(1, 2)

    def key_heads(self, projected: torch.Tensor) -> torch.Tensor:
        """`[batch, key, kv_heads * head_dim] -> [batch, kv_heads, key, head_dim]`, normed per head, not yet rotated."""
        keys = self._split_heads(projected)
        return (self.k_norm(keys) if self.use_qk_norm else keys).transpose(1, 2)

    def value_heads(self, projected: torch.Tensor) -> torch.Tensor:
        """`[batch, key, kv_heads * head_dim] -> [batch, kv_heads, key, head_dim]`."""
        return self._split_heads(projected).transpose(1, 2)

    def project(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values `[batch, heads or kv_heads, query, head_dim]` of `[batch, query, hidden]`."""
        queries, keys, values = self.q_proj(hidden_states), self.k_proj(hidden_states), self.v_proj(hidden_states)
        return self.query_heads(queries), self.key_heads(keys), self.value_heads(values)

    def attend(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: Mask,
        output_attentions: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Run the configured attention function and `o_proj`; returns `[batch, query, hidden]` and the weights.

        `output_attentions` runs this call eagerly. With a `SdpaMask` the keys are in its order.
        """
        dropout = self.attention_dropout if self.training else 0.0
        if isinstance(mask, SdpaMask):
            return self.o_proj(sdpa_attention(queries, keys, values, mask.additive, self.scaling, dropout)), None
        name = implementation(self.config, output_attentions)
        if name == "sdpa" and not queries.numel():  # HF's SDPA function cannot reshape a context without elements
            name = "eager"
        attention = ALL_ATTENTION_FUNCTIONS.get_interface(name, eager_attention_forward)
        context, weights = attention(self, queries, keys, values, mask, dropout=dropout, scaling=self.scaling)
        batch, length = queries.shape[0], queries.shape[2]
        # Heads × head_dim wide, which is not hidden_size: only o_proj leads back to the stream.
        merged = context.reshape(batch, length, self.attention_width).contiguous()
        return self.o_proj(merged), weights if output_attentions else None
