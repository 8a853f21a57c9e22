"""Who may see whom: bool masks `[batch, query, key]`, True = visible, as plain functions of lengths and padding.

A window counts slots, as Hugging Face does, not position ids: padding inside it uses slots up. Builders without padding
have batch 1 and broadcast; `padding` has query 1. Masks combine with `&`. Padding hides keys alone: the row of a query
that is itself padding is an ordinary row, which may see nothing.
"""

import numpy as np

from qwen3_spec.arithmetic import Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.site import Site


def _distance(query_len: int, key_len: int, past: int) -> Array:
    """Query slot minus key slot, `[1, query, key]`, the first query standing in slot `past`."""
    queries = past + np.arange(query_len)
    difference: Array = queries[:, None] - np.arange(key_len)
    return difference[None]


def causal(query_len: int, past: int = 0) -> Array:
    """Key slots up to the query's own, `[1, query, past + query]`."""
    return np.asarray(_distance(query_len, past + query_len, past) >= 0)


def bidirectional(query_len: int, key_len: int) -> Array:
    """Every key, `[1, query, key]`."""
    return np.ones((1, query_len, key_len), bool)


def sliding_causal(query_len: int, past: int, window: int) -> Array:
    """The decoder's rule `0 <= i - j < window`: `window` keys, the query's own included, `[1, query, past + query]`."""
    distance = _distance(query_len, past + query_len, past)
    return (distance >= 0) & (distance < window)


def sliding_bidirectional(length: int, window: int) -> Array:
    """The encoder's rule `|i - j| <= window`: `2 * window + 1` keys, `[1, length, length]`."""
    return np.asarray(np.abs(_distance(length, length, 0)) <= window)


def padding(mask: Array) -> Array:
    """`mask[batch, key]`, nonzero = real token -> `[batch, 1, key]`."""
    return mask.astype(bool)[:, None]


def encoder_mask(mask: Array, window: int | None = None) -> Array:
    """The encoder's self-attention, `mask[batch, seq]` -> `[batch, seq, seq]`."""
    length = mask.shape[1]
    near = bidirectional(length, length) if window is None else sliding_bidirectional(length, window)
    return near & padding(mask)


def merged(decoder_mask: Array, encoder_mask: Array | None, query_len: int, window: int | None = None) -> Array:
    """Merged attention, decoder slots first -> `[batch, query, total + enc]`.

    `decoder_mask[batch, total]` covers past and current slots, the queries being the last `query_len` of them;
    `encoder_mask[batch, enc]` (None = no encoder). The window limits the decoder's own past, never the encoder's keys.
    A `decoder_mask[batch, total, total]` says itself which slot sees which, in the place of order, window and padding.
    """
    batch, total = decoder_mask.shape[:2]
    past = total - query_len
    if decoder_mask.ndim == 3:
        visible = decoder_mask[:, past:].astype(bool)
    else:
        near = causal(query_len, past) if window is None else sliding_causal(query_len, past, window)
        visible = near & padding(decoder_mask)
    if encoder_mask is None:
        return visible
    memory = np.broadcast_to(padding(encoder_mask), (batch, query_len, encoder_mask.shape[1]))
    return np.concatenate([visible, memory], axis=-1)


def at_site(site: Site, _arithmetic: Arithmetic) -> Array:
    """Which keys the queries of this step see, by padding and window."""
    if site.stack == "encoder":
        return encoder_mask(site.inputs[0], site.window)[:, -site.length :]
    slots = (slice(None), *[slice(site.stop)] * (site.inputs[0].ndim - 1))
    decoder_mask, memory = site.inputs[0][slots], site.inputs[1] if len(site.inputs) > 1 else None
    return merged(decoder_mask, memory, site.length, site.window)


OPS = (Op("mask", at_site),)
