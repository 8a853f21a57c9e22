"""The decoder's cache: HF's `EncoderDecoderCache`, whose self half grows and whose cross half is written once."""

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, DynamicLayer, EncoderDecoderCache

from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .graph_capture import capturing
from .merged_cache import MergedLayer, Pair, merged_layers


def new_cache() -> EncoderDecoderCache:
    """An empty cache whose two halves both keep every token, whatever the layer types: masks do the windowing."""
    return EncoderDecoderCache(merged_layers(DynamicCache()), DynamicCache())


def cache_bytes_per_token(config: Qwen3EncoderDecoderConfig, dtype: torch.dtype) -> int:
    """Bytes that one token takes in a cache, the same for a token of the decoder and one of the encoder.

    Keys and values of every layer. A cache that grows in place has slots to spare beside: 64 a row, or a quarter of
    those in use if that is more.
    """
    return 2 * config.num_hidden_layers * config.kv_heads * config.head_dim * dtype.itemsize


def check_cache(
    cache: Cache | None, config: Qwen3EncoderDecoderConfig, batch: int, encoder_length: int
) -> EncoderDecoderCache | None:
    """The caller's cache, or `ValueError` when it cannot hold this call's keys, or would lose or mix them up."""
    if cache is None:
        return None
    if not isinstance(cache, EncoderDecoderCache):
        raise ValueError(f"past_key_values is a {type(cache).__name__}; expected an EncoderDecoderCache")
    if any(cache.cross_attention_cache.is_sliding):
        raise ValueError(
            "past_key_values' cross-attention cache is a sliding one and would evict encoder keys; use a full one"
        )
    for layer_idx, layer in enumerate(cache.self_attention_cache.layers[: config.num_hidden_layers]):
        if not getattr(layer, "is_sliding", False):
            continue
        window = config.window(config.layer_type(layer_idx))
        sliding_window: int | None = getattr(layer, "sliding_window", None)
        if sliding_window is not None and (window is None or sliding_window < window):
            raise ValueError(
                f"past_key_values' self-attention cache keeps {sliding_window} tokens in layer {layer_idx}, "
                f"whose window is {window or 'unlimited'}; use a full cache"
            )
    for half in ("self", "cross"):
        _check_half(getattr(cache, f"{half}_attention_cache"), half, config, batch)
    if has_encoder_keys(cache, 0):
        keys, _ = encoder_keys_values(cache, 0)
        cached = encoder_length if capturing() else int(cache.cross_attention_cache.get_seq_length(0))
        if cached != encoder_length or keys.shape[0] != batch:
            raise ValueError(
                f"past_key_values holds encoder keys of (batch, length) = {(keys.shape[0], cached)}, "
                f"encoder_hidden_states has {(batch, encoder_length)}; start each source with an empty cache"
            )
    else:
        for layer_idx, layer in enumerate(cache.cross_attention_cache.layers):
            max_cache_len: int | None = getattr(layer, "max_cache_len", None)
            if max_cache_len is not None and max_cache_len < encoder_length:
                raise ValueError(
                    f"past_key_values' cross-attention cache has room for {max_cache_len} encoder keys "
                    f"in layer {layer_idx}; encoder_hidden_states has length {encoder_length}"
                )
    return cache


def _check_half(half: Cache, name: str, config: Qwen3EncoderDecoderConfig, batch: int) -> None:
    if len(half.layers) > config.num_hidden_layers:
        raise ValueError(
            f"past_key_values' {name}-attention cache has {len(half.layers)} layers; "
            f"expected num_hidden_layers = {config.num_hidden_layers}"
        )
    expected = (batch, config.kv_heads, config.head_dim)
    for layer_idx, layer in enumerate(half.layers):
        keys: torch.Tensor | None = getattr(layer, "keys", None)
        if keys is None or keys.ndim != 4:  # nothing written yet
            continue
        rows, heads, _, width = keys.shape
        if (got := (rows, heads, width)) != expected:
            raise ValueError(
                f"past_key_values' {name}-attention cache holds keys of (batch, kv_heads, head_dim) = {got} in layer "
                f"{layer_idx}; expected {expected}: the cache belongs to another request or model"
            )


def check_depth(cache: EncoderDecoderCache, num_hidden_layers: int) -> None:
    """`ValueError` when a half has layers, but fewer than the decoder, whose other layers would find no past."""
    for name in ("self", "cross"):
        depth = len(getattr(cache, f"{name}_attention_cache").layers)
        if 0 < depth < num_hidden_layers:  # a dynamic one has none before its first use
            raise ValueError(
                f"past_key_values' {name}-attention cache has {depth} layers; "
                f"expected num_hidden_layers = {num_hidden_layers}"
            )


def has_encoder_keys(cache: EncoderDecoderCache | None, layer_idx: int) -> bool:
    """Whether the layer's encoder keys were computed in an earlier call."""
    return cache is not None and bool(cache.is_updated.get(layer_idx))


def encoder_keys_values(cache: EncoderDecoderCache, layer_idx: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The layer's encoder keys and values `[batch, kv_heads, slots, head_dim]`; a static cache may have spare slots."""
    layer = cache.cross_attention_cache.layers[layer_idx]
    assert isinstance(layer, CacheLayerMixin) and layer.keys is not None and layer.values is not None
    return layer.keys, layer.values


def appended(
    cache: EncoderDecoderCache | None, layer_idx: int, keys: torch.Tensor, values: torch.Tensor
) -> Pair | None:
    """`[encoder ; decoder]` keys and values of a layer with the new ones of a step appended in place.

    Each is `[batch, kv_heads, slots, head_dim]`. None, and nothing is done, where the cache does not hold both halves
    in one buffer, or has no slots left in it.
    """
    layers = [] if cache is None else cache.self_attention_cache.layers
    layer = layers[layer_idx] if layer_idx < len(layers) else None
    if cache is None or type(layer) is not MergedLayer or layer.buffer is None:
        return None
    theirs, memory = cache.cross_attention_cache.layers[layer_idx], layer.buffer.memory
    if type(theirs) is not DynamicLayer or theirs.keys is not memory[0] or theirs.values is not memory[1]:
        return None
    return layer.append(keys, values).both if layer.takes(keys.shape[2], keys.dtype) else None


def memory_first(cache: EncoderDecoderCache | None, layer_idx: int, decoder: Pair, memory: Pair) -> Pair:
    """`[encoder ; decoder]` keys and values of a layer, from its halves; in one buffer where its cache can hold both.

    Each is `[batch, kv_heads, slots, head_dim]`. The encoder's half of the cache becomes a view of that buffer.
    """
    layer = None if cache is None else cache.self_attention_cache.layers[layer_idx]
    if not isinstance(layer, MergedLayer) or layer.keys is not decoder[0] or layer.values is not decoder[1]:
        return torch.cat((memory[0], decoder[0]), dim=2), torch.cat((memory[1], decoder[1]), dim=2)
    buffer = layer.beside(memory)
    assert cache is not None
    theirs = cache.cross_attention_cache.layers[layer_idx]
    assert isinstance(theirs, CacheLayerMixin)
    if theirs.keys is memory[0] and theirs.values is memory[1]:
        theirs.keys, theirs.values = buffer.memory
    return buffer.both


def past_length(cache: EncoderDecoderCache | None, layer_idx: int = 0) -> int | torch.Tensor:
    """Decoder tokens of earlier calls; the encoder's keys never count. In a captured graph a static cache's is 0-d."""
    length: int | torch.Tensor = 0 if cache is None else cache.self_attention_cache.get_seq_length(layer_idx)
    return length if capturing() else int(length)


def own_slots(cache: EncoderDecoderCache | None, query: int, layer_idx: int) -> tuple[int, int]:
    """`(count, first)`: how many decoder keys the layer returns for `query` new tokens, and the first one's index.

    `ValueError` when a cache of fixed length has no room for them; a compiled graph leaves that to the cache.
    """
    if cache is None:
        return query, 0
    count, first = cache.self_attention_cache.get_mask_sizes(query, layer_idx)
    if not capturing() and past_length(cache, layer_idx) + query > count + first:
        raise ValueError(
            f"past_key_values has room for {int(count)} tokens in layer {layer_idx} and holds "
            f"{past_length(cache, layer_idx)}; {query} more exceed its length: make the cache longer"
        )
    return int(count), int(first)
