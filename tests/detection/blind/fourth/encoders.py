"""Encoders of others and what decoders read of them: a norm too many, a mask as numbers, pages of another cache."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec import caches, classic_attention, merged_attention, rope

_PAGE = 4
"""Tokens of a page."""


def normed_twice(patch: Patch) -> None:
    patch.wrap(patch.model.encoder.norm, "forward", lambda plain, x: plain(plain(x)))


def hidden_added(_plain: Any, scores: torch.Tensor, hidden: torch.Tensor | None) -> torch.Tensor:
    """A boolean mask, true where a key is padding, is added like one of floats."""
    return (scores if hidden is None else scores + hidden.to(scores.dtype)).softmax(-1)


def positions_across(patch: Patch) -> None:
    """The encoder's keys have positions as those of self-attention have, in a model that gives them none."""
    rotary = patch.model.decoder.rotary_emb

    def keys_values(plain: Any, module: Any, memory: torch.Tensor, _tables: Any) -> Any:
        keys, values = plain(module, memory, None)
        ids = torch.arange(memory.shape[1]).expand(len(memory), -1)
        tables = rope.rotary_tables(rotary.inv_freq, ids, keys.dtype, rotary.attention_factor)
        return rope.apply_rotary(keys, *tables), values

    patch.wrap(merged_attention.Qwen3MergedAttention, "encoder_keys_values", keys_values)


def pages_of_own_cache(patch: Patch) -> None:
    """Decode steps look the encoder's pages up in the table of the decoder's own cache.

    That table has a page of each row's prompt first, then those that came later, row by row; the encoder's pages lie
    row by row.
    """
    lengths: list[int] = []

    def forward(plain: Any, module: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        lengths[:] = [x.shape[1]]
        return plain(module, x, *args, **kwargs)

    def keys_values(plain: Any, cache: Any, layer: int) -> Any:
        return tuple(looked_up(x) if lengths[0] == 1 else x for x in plain(cache, layer))

    patch.wrap(merged_attention.Qwen3MergedAttention, "forward", forward)
    patch.function(caches.encoder_keys_values, keys_values)


def looked_up(x: torch.Tensor) -> torch.Tensor:
    """Encoder keys or values by another cache's table."""
    batch, heads, length, dim = x.shape
    pages = -(-length // _PAGE)
    padded = torch.nn.functional.pad(x, (0, 0, 0, pages * _PAGE - length))
    pool = torch.unflatten(padded, 2, (pages, _PAGE)).transpose(1, 2).flatten(0, 1)
    table = torch.arange(batch * pages).view(pages, batch).T
    return pool[table].transpose(1, 2).reshape(batch, heads, pages * _PAGE, dim)[:, :, :length]


def weights_for_bias(patch: Patch) -> None:
    """Layers behind the first add its weights of the encoder's keys where its bias is, which has the mask in it."""
    bias: list[torch.Tensor] = []
    place: list[Any] = [0, 0]

    def forward(plain: Any, module: Any, x: torch.Tensor, memory: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        place[:] = [module.layer_idx, memory.shape[1]]
        result = plain(module, x, memory, *args, **kwargs)
        place[1] = 0
        return result

    def softmax(plain: Any, scores: torch.Tensor, mask: Any, dtype: torch.dtype) -> Any:
        layer, length = place
        if not length:
            return plain(scores, mask, dtype)
        if layer:
            mask = mask.expand(-1, scores.shape[1], -1, -1).clone()
            mask[..., -length:] = bias[0]
            return plain(scores, mask, dtype)
        probs = plain(scores, mask, dtype)
        bias[:] = [probs[..., -length:]]
        return probs

    patch.wrap(merged_attention.Qwen3MergedAttention, "forward", forward)
    patch.function(code.probabilities, softmax)


_MERGED = "encdec/ragged encdec/unrotated"

ROWS = (
    row("F073", "the encoder ends with two norms", "Atten4Vis/ConditionalDETR#11", "norm wiring", _MERGED,
        normed_twice, "encoder.norm"),
    row("F074", "the boolean padding mask is added to the scores: padding gets 1 more", "mlverse/torch#1208",
        "mask values", "classic/bert classic/post_norm",
        lambda patch: patch.function(classic_attention.probabilities, hidden_added), "self_attn.probs"),
    row("F075", "the encoder's keys are rotated in a model that gives them no positions",
        "huggingface/transformers#8518", "cross attention", "encdec/unrotated", positions_across,
        "merged_attn.cache_encoder_keys"),
    row("F076", "decode steps find the encoder's pages by the table of the decoder's own cache",
        "NVIDIA/TensorRT-LLM#13919", "cross cache", "encdec/ragged encdec/unrotated", pages_of_own_cache,
        "merged_attn.cache_encoder_keys merged_attn.cache_encoder_values"),
    row("F077", "later layers add the first one's weights of the encoder's keys to their scores, instead of a bias",
        "huggingface/transformers#4499", "cross attention", _MERGED, weights_for_bias, "merged_attn.probs"),
)  # fmt: skip
