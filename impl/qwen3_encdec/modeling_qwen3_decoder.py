"""The decoder: Qwen3 whose self-attention became merged attention."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.utils import logging
from transformers.utils.generic import ModelOutput

from .backends import SEES_ALL, Mask, SdpaMask, backend_mask, calls_sdpa
from .cache_name import CACHE, one_cache
from .caches import check_cache, check_depth, has_encoder_keys, new_cache, own_slots, past_length
from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .decoder_layer import Qwen3DecoderLayer
from .inputs import check_dtype, check_encoder_states, check_tensor, embed, positions
from .masks import hides_nothing, merged_mask
from .merged_attention import Qwen3MergedAttention, Rotary
from .norm import Qwen3RMSNorm
from .pretrained import Qwen3EncoderDecoderPreTrainedModel, build_rotary

__all__ = ["Qwen3Decoder", "Qwen3DecoderLayer", "Qwen3DecoderOutput", "Qwen3MergedAttention"]

logger = logging.get_logger(__name__)


@dataclass
class Qwen3DecoderOutput(ModelOutput):
    """What the decoder returns.

    `last_hidden_state [batch, dec, hidden]` after the final norm; `past_key_values` when a cache is used, which is
    called `cache` where transformers calls it so;
    `hidden_states`: the embeddings, the output of every layer but the last, and `last_hidden_state`; `attentions`:
    merged weights `[batch, heads, dec, dec_total + enc]` of every layer.
    """

    last_hidden_state: torch.Tensor | None = None
    if CACHE == "cache":  # transformers 5.24, where `past_key_values` is another name for it
        cache: EncoderDecoderCache | None = None
    else:
        past_key_values: EncoderDecoderCache | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None


class Qwen3Decoder(Qwen3EncoderDecoderPreTrainedModel):  # type: ignore[no-untyped-call]
    """Embedding, layers and final norm; needs the encoder's (final-normed) output, whose length may be 0."""

    def __init__(self, config: Qwen3EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.padding_idx)
        self.layers = nn.ModuleList(Qwen3DecoderLayer(config, index) for index in range(config.num_hidden_layers))
        self.norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = build_rotary(config)
        self.gradient_checkpointing = False
        self.post_init()  # type: ignore[no-untyped-call]

    def _prepare_cache(
        self, past_key_values: Cache | None, use_cache: bool | None, batch: int, encoder_length: int
    ) -> tuple[EncoderDecoderCache | None, bool]:
        cache = check_cache(past_key_values, self.config, batch, encoder_length)
        if cache is not None:
            check_depth(cache, self.config.num_hidden_layers)
        use_cache = self.config.use_cache if use_cache is None else use_cache
        if self.gradient_checkpointing and self.training:
            if cache is not None:  # the recomputation in the backward pass would append every key a second time
                raise ValueError("past_key_values cannot be used while training with gradient checkpointing")
            if use_cache:
                logger.warning_once("gradient checkpointing is on: use_cache is set to False")
            return None, False
        return (new_cache() if use_cache and cache is None else cache), use_cache

    def encoder_position_embeddings(self, encoder_hidden_states: torch.Tensor, position_ids: torch.Tensor) -> Rotary:
        """cos and sin `[batch, enc, head_dim]` at the encoder's positions `[batch, enc]`, for the encoder's keys."""
        tables: Rotary = self.rotary_emb(encoder_hidden_states, position_ids)
        return tables

    def _masks(
        self,
        hidden_states: torch.Tensor,
        encoder_length: int,
        attention_mask: torch.Tensor | None,
        encoder_attention_mask: torch.Tensor | None,
        cache: EncoderDecoderCache | None,
        output_attentions: bool,
    ) -> list[Mask]:
        """Each layer's mask, one for all layers of a type, in the form that the call's attention takes."""
        layer_types = self.config.layer_types or []
        batch, query = hidden_states.shape[:2]
        attention_masks = attention_mask, encoder_attention_mask
        direct = (
            hidden_states.numel() > 0 and not torch.is_grad_enabled() and calls_sdpa(self.config, output_attentions)
        )
        masks: dict[str, Mask] = {}
        for layer_type in dict.fromkeys(layer_types):
            sizes: dict[str, Any] = {
                "batch": batch,
                "past": past_length(cache),
                "slots": own_slots(cache, query, layer_types.index(layer_type)),
                "encoder_length": encoder_length,
                "window": self.config.window(layer_type),
            }
            if direct and query == 1 and hides_nothing(*attention_masks, **sizes):
                masks[layer_type] = SEES_ALL
                continue
            mask = merged_mask(
                *attention_masks, query=query, dtype=hidden_states.dtype, device=hidden_states.device, **sizes
            )
            masks[layer_type] = backend_mask(mask, self.config, output_attentions)
            if direct:
                masks[layer_type] = SdpaMask(mask.roll(encoder_length, dims=-1))
        return [masks[layer_type] for layer_type in layer_types]

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        encoder_position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        return_dict: bool = True,
        *,
        cache: Cache | None = None,
    ) -> Qwen3DecoderOutput | tuple[object, ...]:
        """Decode `[batch, dec]` ids or `[batch, dec, hidden]` embeddings against `encoder_hidden_states`.

        `cache` is another name of `past_key_values`. Once it holds the encoder's keys, only the length of
        `encoder_hidden_states` is used. A 2-D
        `attention_mask` covers past and current tokens. With `return_dict=False` the four fields of
        `Qwen3DecoderOutput` come as a tuple. `ValueError` for missing encoder states, ids out of range, ids and
        embeddings together, masks, positions or caches that do not fit.
        """
        hidden_states = embed(input_ids, inputs_embeds, self.embed_tokens, "decoder")
        batch, query = hidden_states.shape[:2]
        device = hidden_states.device
        memory = check_encoder_states(encoder_hidden_states, batch, self.config.hidden_size)
        encoder_length = memory.shape[1]
        cache, use_cache = self._prepare_cache(one_cache(past_key_values, cache), use_cache, batch, encoder_length)
        if not has_encoder_keys(cache, 0):
            check_dtype(memory, self.embed_tokens.weight.dtype, "encoder_hidden_states")
        past = past_length(cache)
        if attention_mask is not None:
            check_tensor(attention_mask, "decoder attention_mask")
        masks = self._masks(
            hidden_states, encoder_length, attention_mask, encoder_attention_mask, cache, output_attentions
        )
        position_ids = positions(position_ids, attention_mask, batch, query, past, "decoder position_ids", device)
        position_embeddings = self.rotary_emb(hidden_states, position_ids)
        encoder_position_embeddings: Rotary | None = None
        if self.config.rotate_encoder_keys and encoder_length and not has_encoder_keys(cache, 0):
            name = "encoder_position_ids"
            theirs = positions(encoder_position_ids, encoder_attention_mask, batch, encoder_length, 0, name, device)
            encoder_position_embeddings = self.encoder_position_embeddings(memory, theirs)
        states: list[torch.Tensor] = []
        attentions: list[torch.Tensor] = []
        for layer, mask in zip(self.layers, masks, strict=True):
            if output_hidden_states:
                states.append(hidden_states)
            hidden_states, weights, _ = layer(
                hidden_states,
                memory,
                past_key_value=cache,
                use_cache=use_cache,
                output_attentions=output_attentions,
                mask=mask,
                position_embeddings=position_embeddings,
                encoder_position_embeddings=encoder_position_embeddings,
            )
            if output_attentions:
                attentions.append(weights)
        hidden_states = self.norm(hidden_states)
        states.append(hidden_states)  # the last entry is after the final norm, as HF has it
        held: dict[str, Any] = {CACHE: cache if use_cache else None}
        output = Qwen3DecoderOutput(
            last_hidden_state=hidden_states,
            **held,
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )
        if return_dict:
            return output
        return output.last_hidden_state, held[CACHE], output.hidden_states, output.attentions
