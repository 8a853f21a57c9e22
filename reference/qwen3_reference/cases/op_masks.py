"""HF's own mask builders as an op: padding and a window in, who sees whom out."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicCache
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.models.qwen3 import Qwen3Config

from qwen3_reference.cache_name import CACHE


def _build(mask: torch.Tensor, query: int, window: int, *, is_causal: bool) -> torch.Tensor:
    """Bool `[batch, query, key]` over the slots of `mask[batch, key]`, the queries being the last ones."""
    config: Any = Qwen3Config(
        num_hidden_layers=1, sliding_window=window or None, use_sliding_window=bool(window), max_window_layers=0
    )
    config.is_causal = is_causal
    config._attn_implementation = "eager"
    cache = DynamicCache()
    past = mask.shape[1] - query
    if past:
        empty = torch.zeros(mask.shape[0], 1, past, 1)
        cache.update(empty, empty, 0)
    builder = create_sliding_window_causal_mask if window else create_causal_mask
    embeds = torch.empty(mask.shape[0], query, 1)
    held: Any = {CACHE: cache}
    built: Any = builder(config=config, inputs_embeds=embeds, attention_mask=mask.long(), position_ids=None, **held)
    shown: torch.Tensor = built[:, 0] == 0
    return shown


def mask_outputs(encoder: torch.Tensor | None, decoder: torch.Tensor | None, query: int, window: int) -> torch.Tensor:
    """The encoder's mask (no decoder given), the causal one (no encoder), or the merged one, decoder slots first."""
    if decoder is None:
        assert encoder is not None
        return _build(encoder, query, window, is_causal=False)
    own = _build(decoder, query, window, is_causal=True)
    if encoder is None:
        return own
    return torch.cat([own, encoder[:, None].expand(-1, query, -1)], dim=-1)
