"""The encoder: Qwen3 with bidirectional attention."""

from dataclasses import dataclass

import torch
from torch import nn
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.generic import ModelOutput

from .attention import ProjectedAttention, repeat_kv
from .backends import SEES_ALL, Mask, backend_mask, calls_sdpa
from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .inputs import embed, positions
from .masks import encoder_hides_nothing, encoder_mask
from .mlp import Qwen3MLP
from .norm import Qwen3RMSNorm
from .pretrained import Qwen3EncoderDecoderPreTrainedModel, build_rotary
from .rope import Qwen3RotaryEmbedding, apply_rotary_pos_emb, rotate_half, tables_by_config

__all__ = [
    "Qwen3Encoder",
    "Qwen3EncoderAttention",
    "Qwen3EncoderLayer",
    "Qwen3EncoderOutput",
    "Qwen3MLP",
    "Qwen3RMSNorm",
    "Qwen3RotaryEmbedding",
    "apply_rotary_pos_emb",
    "repeat_kv",
    "rotate_half",
]

Rotary = tuple[torch.Tensor, torch.Tensor]


@dataclass
class Qwen3EncoderOutput(ModelOutput):
    """What the encoder returns.

    `last_hidden_state [batch, seq, hidden]` after the final norm; `hidden_states`: the embeddings, the output of every
    layer but the last, and `last_hidden_state`; `attentions`: `[batch, heads, seq, seq]` of every layer.
    """

    last_hidden_state: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None


class Qwen3EncoderAttention(ProjectedAttention):
    """Bidirectional grouped-query self-attention with QK-norm and RoPE (mirrors HF `Qwen3Attention`)."""

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        output_attentions: bool = False,
        *,
        mask: Mask | None = None,
        position_embeddings: Rotary | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """`[batch, seq, hidden] -> ([batch, seq, hidden], weights [batch, heads, seq, seq] | None)`.

        `attention_mask` is 2-D padding or 4-D (bool or additive). A stack passes `mask` and `position_embeddings`,
        built once, instead of `attention_mask` and `position_ids`.
        """
        batch, length = hidden_states.shape[:2]
        dtype, device = hidden_states.dtype, hidden_states.device
        if mask is None:
            built = encoder_mask(attention_mask, batch, length, self.sliding_window, dtype, device)
            mask = backend_mask(built, self.config, output_attentions)
        if position_embeddings is None:
            position_ids = positions(position_ids, attention_mask, batch, length, 0, "position_ids", device)
            position_embeddings = tables_by_config(self.config.rope, self.head_dim, position_ids, dtype)
        queries, keys, values = self.project(hidden_states)
        queries, keys = apply_rotary_pos_emb(queries, keys, *position_embeddings)
        return self.attend(queries, keys, values, mask, output_attentions)


class Qwen3EncoderLayer(GradientCheckpointingLayer):  # type: ignore[no-untyped-call]
    """Pre-norm block: attention and SwiGLU, each added to the stream (mirrors HF `Qwen3DecoderLayer`)."""

    def __init__(self, config: Qwen3EncoderDecoderConfig, layer_idx: int = 0) -> None:
        super().__init__()
        self.input_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = Qwen3EncoderAttention(config, layer_idx)
        self.post_attention_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = Qwen3MLP(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        output_attentions: bool = False,
        *,
        mask: Mask | None = None,
        position_embeddings: Rotary | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The attention's arguments; returns the stream `[batch, seq, hidden]` and the weights."""
        attended, weights = self.self_attn(
            self.input_layernorm(hidden_states),
            attention_mask,
            position_ids,
            output_attentions,
            mask=mask,
            position_embeddings=position_embeddings,
        )
        stream = hidden_states + attended
        stream = stream + self.mlp(self.post_attention_layernorm(stream))
        return stream, weights


class Qwen3Encoder(Qwen3EncoderDecoderPreTrainedModel):  # type: ignore[no-untyped-call]
    """Embedding, layers and final norm. Every token sees every other, so the input cannot be fed in chunks."""

    def __init__(self, config: Qwen3EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.padding_idx)
        self.layers = nn.ModuleList(Qwen3EncoderLayer(config, index) for index in range(config.num_hidden_layers))
        self.norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = build_rotary(config)
        self.gradient_checkpointing = False
        self.post_init()  # type: ignore[no-untyped-call]

    def _masks(
        self,
        attention_mask: torch.Tensor | None,
        batch: int,
        length: int,
        dtype: torch.dtype,
        device: torch.device,
        output_attentions: bool,
    ) -> dict[str, Mask]:
        """The mask of each layer type, in the form that the call's attention takes."""
        direct = length > 0 and calls_sdpa(self.config, output_attentions)
        masks: dict[str, Mask] = {}
        for layer_type in dict.fromkeys(self.config.layer_types or ()):
            window = self.config.window(layer_type)
            if direct and encoder_hides_nothing(attention_mask, batch, length, window):
                masks[layer_type] = SEES_ALL
                continue
            mask = encoder_mask(attention_mask, batch, length, window, dtype, device)
            masks[layer_type] = backend_mask(mask, self.config, output_attentions)
        return masks

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        return_dict: bool = True,
        *,
        past_key_values: Cache | None = None,
    ) -> Qwen3EncoderOutput | tuple[torch.Tensor, tuple[torch.Tensor, ...] | None, tuple[torch.Tensor, ...] | None]:
        """Encode `[batch, seq]` ids or `[batch, seq, hidden]` embeddings.

        Without `position_ids` tokens are counted from 0 in each row, padding skipped. `ValueError` for ids out of
        range, ids and embeddings together, a mask of another shape, and `past_key_values`: there is no cache here.
        """
        if past_key_values is not None:
            raise ValueError(
                "the encoder is bidirectional and keeps no past_key_values; feed the whole input in one call"
            )
        hidden_states = embed(input_ids, inputs_embeds, self.embed_tokens, "encoder")
        batch, length = hidden_states.shape[:2]
        dtype, device = hidden_states.dtype, hidden_states.device
        position_ids = positions(position_ids, attention_mask, batch, length, 0, "encoder position_ids", device)
        masks = self._masks(attention_mask, batch, length, dtype, device, output_attentions)
        position_embeddings = self.rotary_emb(hidden_states, position_ids)
        states: list[torch.Tensor] = []
        attentions: list[torch.Tensor] = []
        for index, layer in enumerate(self.layers):
            if output_hidden_states:
                states.append(hidden_states)
            hidden_states, weights = layer(
                hidden_states,
                output_attentions=output_attentions,
                mask=masks[self.config.layer_type(index)],
                position_embeddings=position_embeddings,
            )
            if output_attentions:
                attentions.append(weights)
        hidden_states = self.norm(hidden_states)
        states.append(hidden_states)  # the last entry is after the final norm, as HF has it
        all_states = tuple(states) if output_hidden_states else None
        all_attentions = tuple(attentions) if output_attentions else None
        if not return_dict:
            return hidden_states, all_states, all_attentions
        return Qwen3EncoderOutput(hidden_states, all_states, all_attentions)
