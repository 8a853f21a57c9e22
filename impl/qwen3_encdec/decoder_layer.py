"""One layer of the decoder."""

import torch
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer

from .backends import Mask
from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .merged_attention import Qwen3MergedAttention, Rotary
from .mlp import Qwen3MLP
from .norm import Qwen3RMSNorm


class Qwen3DecoderLayer(GradientCheckpointingLayer):  # type: ignore[no-untyped-call]
    """Pre-norm block: merged attention and SwiGLU, each added to the stream (mirrors HF `Qwen3DecoderLayer`)."""

    def __init__(self, config: Qwen3EncoderDecoderConfig, layer_idx: int = 0) -> None:
        super().__init__()
        self.input_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.merged_attn = Qwen3MergedAttention(config, layer_idx)
        self.post_attention_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = Qwen3MLP(config)

    def forward(
        self,
        decoder_hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        decoder_position_ids: torch.Tensor | None = None,
        encoder_position_ids: torch.Tensor | None = None,
        past_key_value: EncoderDecoderCache | None = None,
        use_cache: bool = False,
        output_attentions: bool = False,
        *,
        mask: Mask | None = None,
        position_embeddings: Rotary | None = None,
        encoder_position_embeddings: Rotary | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None, EncoderDecoderCache | None]:
        """The attention's arguments; returns the stream `[batch, dec, hidden]`, the weights and the cache."""
        attended, weights, cache = self.merged_attn(
            self.input_layernorm(decoder_hidden_states),
            encoder_hidden_states,
            decoder_attention_mask,
            encoder_attention_mask,
            decoder_position_ids,
            encoder_position_ids,
            past_key_value,
            use_cache,
            output_attentions,
            mask=mask,
            position_embeddings=position_embeddings,
            encoder_position_embeddings=encoder_position_embeddings,
        )
        stream = decoder_hidden_states + attended
        stream = stream + self.mlp(self.post_attention_layernorm(stream))
        return stream, weights, cache
