"""The decoder's cache: HF's `EncoderDecoderCache`, whose self half grows and whose cross half is written once."""

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, EncoderDecoderCache

from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig


def new_cache() -> EncoderDecoderCache:
    """An empty cache whose two halves both keep every token, whatever the layer types: masks do the windowing."""
    return EncoderDecoderCache(DynamicCache(), DynamicCache())


def check_cache(
    cache: Cache | None, config: Qwen3EncoderDecoderConfig, batch: int, encoder_length: int
) -> EncoderDecoderCache | None:
    """The caller's cache, or `ValueError` when using it would silently lose or mix up keys."""
    if cache is None:
        return None
    if not isinstance(cache, EncoderDecoderCache):
        raise ValueError(f"past_key_values is a {type(cache).__name__}; expected an EncoderDecoderCache")
    if any(cache.cross_attention_cache.is_sliding):
        raise ValueError(
            "past_key_values' cross-attention cache is a sliding one and would evict encoder keys; use a full one"
        )
    for layer_idx, layer in enumerate(cache.self_attention_cache.layers[: config.num_hidden_layers]):
        window = config.window(config.layer_type(layer_idx))
        kept: int | None = getattr(layer, "sliding_window", None)
        if kept is not None and (window is None or kept < window):
            raise ValueError(
                f"past_key_values' self-attention cache keeps {kept} tokens in layer {layer_idx}, "
                f"whose window is {window or 'unlimited'}; use a full cache"
            )
    if has_encoder_keys(cache, 0):
        keys, _ = encoder_keys_values(cache, 0)
        cached = int(cache.cross_attention_cache.get_seq_length(0))
        if cached != encoder_length or keys.shape[0] != batch:
            raise ValueError(
                f"past_key_values holds encoder keys of (batch, length) = {(keys.shape[0], cached)}, "
                f"encoder_hidden_states has {(batch, encoder_length)}; start each source with an empty cache"
            )
    return cache


def has_encoder_keys(cache: EncoderDecoderCache | None, layer_idx: int) -> bool:
    """Whether the layer's encoder keys were computed in an earlier call."""
    return cache is not None and bool(cache.is_updated.get(layer_idx))


def encoder_keys_values(cache: EncoderDecoderCache, layer_idx: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The layer's encoder keys and values `[batch, kv_heads, slots, head_dim]`; a static cache may have spare slots."""
    layer = cache.cross_attention_cache.layers[layer_idx]
    assert isinstance(layer, CacheLayerMixin) and layer.keys is not None and layer.values is not None
    return layer.keys, layer.values


def past_length(cache: EncoderDecoderCache | None, layer_idx: int = 0) -> int:
    """Decoder tokens of earlier calls; the encoder's keys never count."""
    return 0 if cache is None else int(cache.self_attention_cache.get_seq_length(layer_idx))


def own_slots(cache: EncoderDecoderCache | None, query: int, layer_idx: int) -> tuple[int, int]:
    """`(count, first)`: how many decoder keys the layer returns for `query` new tokens, and the first one's index."""
    if cache is None:
        return query, 0
    count, first = cache.self_attention_cache.get_mask_sizes(query, layer_idx)
    return int(count), int(first)
