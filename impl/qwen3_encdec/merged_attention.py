"""Merged attention: the decoder's queries over `[decoder ; encoder]` keys in one softmax."""

import torch
from transformers.cache_utils import EncoderDecoderCache

from .attention import ProjectedAttention
from .backends import Mask, SdpaMask, backend_mask
from .caches import (
    appended,
    check_cache,
    encoder_keys_values,
    has_encoder_keys,
    memory_first,
    new_cache,
    own_slots,
    past_length,
)
from .inputs import check_encoder_states, positions
from .masks import merged_mask
from .rope import apply_rotary, apply_rotary_pos_emb, tables_by_config

Rotary = tuple[torch.Tensor, torch.Tensor]


class Qwen3MergedAttention(ProjectedAttention):
    """Qwen3's self-attention whose keys and values also come from the encoder (T5Gemma 2's merged attention).

    The same projections and norms serve both halves. The encoder's keys are computed once and cached; they are rotated
    at the encoder's own positions, or not at all, by `config.rotate_encoder_keys`. Length 0 leaves causal Qwen3.
    """

    def encoder_keys_values(
        self, encoder_hidden_states: torch.Tensor, position_embeddings: Rotary | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys, values `[batch, kv_heads, key, head_dim]` of `[batch, key, hidden]`; keys rotated when given tables."""
        keys, values = self.k_proj(encoder_hidden_states), self.v_proj(encoder_hidden_states)
        keys = self.key_heads(keys)
        if position_embeddings is not None:
            keys = apply_rotary(keys, *position_embeddings)
        return keys, self.value_heads(values)

    def _tables(self, x: torch.Tensor, position_ids: torch.Tensor) -> Rotary:
        return tables_by_config(self.config.rope, self.head_dim, position_ids.to(x.device), x.dtype)

    def _standalone_mask(
        self,
        decoder_hidden_states: torch.Tensor,
        encoder_length: int,
        decoder_attention_mask: torch.Tensor | None,
        encoder_attention_mask: torch.Tensor | None,
        cache: EncoderDecoderCache | None,
    ) -> torch.Tensor:
        batch, query = decoder_hidden_states.shape[:2]
        return merged_mask(
            decoder_attention_mask,
            encoder_attention_mask,
            batch=batch,
            query=query,
            past=past_length(cache, self.layer_idx),
            slots=own_slots(cache, query, self.layer_idx),
            encoder_length=encoder_length,
            window=self.sliding_window,
            dtype=decoder_hidden_states.dtype,
            device=decoder_hidden_states.device,
        )

    def _memory(
        self,
        encoder_hidden_states: torch.Tensor,
        position_embeddings: Rotary | None,
        cache: EncoderDecoderCache | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if cache is None:
            return self.encoder_keys_values(encoder_hidden_states, position_embeddings)
        if not has_encoder_keys(cache, self.layer_idx):
            keys, values = self.encoder_keys_values(encoder_hidden_states, position_embeddings)
            cache.cross_attention_cache.update(keys, values, self.layer_idx)
            cache.is_updated[self.layer_idx] = True
        keys, values = encoder_keys_values(cache, self.layer_idx)
        length = encoder_hidden_states.shape[1]
        return (keys, values) if keys.shape[2] == length else (keys[:, :, :length], values[:, :, :length])

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
        """`[batch, dec, hidden]` and `[batch, enc, hidden]` to `([batch, dec, hidden], weights | None, cache | None)`.

        Weights are `[batch, heads, dec, dec_total + enc]`, decoder keys first. Masks are 2-D (`decoder_attention_mask`
        over past and current) or 4-D. A cache that is passed grows even without `use_cache`, which only decides whether
        one is made and returned. A stack passes `mask` and both tables, built once, instead of masks and positions.
        """
        cache = past_key_value if past_key_value is not None or not use_cache else new_cache()
        encoder_length = encoder_hidden_states.shape[1]
        if mask is None or position_embeddings is None:
            batch, query = decoder_hidden_states.shape[:2]
            check_encoder_states(encoder_hidden_states, batch, self.config.hidden_size)
            check_cache(cache, self.config, batch, encoder_length)
            device = decoder_hidden_states.device
            past = past_length(cache, self.layer_idx)
            name = "decoder_position_ids"
            position_ids = positions(decoder_position_ids, decoder_attention_mask, batch, query, past, name, device)
            position_embeddings = self._tables(decoder_hidden_states, position_ids)
            if self.config.rotate_encoder_keys and not has_encoder_keys(cache, self.layer_idx):
                name = "encoder_position_ids"
                theirs = positions(encoder_position_ids, encoder_attention_mask, batch, encoder_length, 0, name, device)
                encoder_position_embeddings = self._tables(encoder_hidden_states, theirs)
        if mask is None:
            built = self._standalone_mask(
                decoder_hidden_states, encoder_length, decoder_attention_mask, encoder_attention_mask, cache
            )
            mask = backend_mask(built, self.config, output_attentions)
        queries, keys, values = self.project(decoder_hidden_states)
        queries, keys = apply_rotary_pos_emb(queries, keys, *position_embeddings)
        both = appended(cache, self.layer_idx, keys, values) if isinstance(mask, SdpaMask) else None
        if both is not None:
            keys, values = both
        elif cache is not None:
            keys, values = cache.self_attention_cache.update(keys, values, self.layer_idx)
        if encoder_length and both is None:
            memory = self._memory(encoder_hidden_states, encoder_position_embeddings, cache)
            if isinstance(mask, SdpaMask):
                keys, values = memory_first(cache, self.layer_idx, (keys, values), memory)
            else:
                keys, values = torch.cat((keys, memory[0]), dim=2), torch.cat((values, memory[1]), dim=2)
        output, weights = self.attend(queries, keys, values, mask, output_attentions)
        return output, weights, cache if use_cache else None
