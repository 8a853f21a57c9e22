"""Bugs at the entry and in memory: ids, positions, angles, masks and caches of a narrow type or a wrong edge."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from detection.kernels.seeds import BOTH, bug, cleared, half
from detection.mutants.mutant import Seed, words
from detection.mutants.patch import Patch
from qwen3_encdec import masks, rope

EMBEDDED = words("encoder.embed_tokens decoder.embed_tokens")
TABLES = words("encoder.cos encoder.sin decoder.cos decoder.sin decoder.encoder_cos decoder.encoder_sin")
MASKS = words("self_attn.mask merged_attn.mask")
CACHED = words("merged_attn.k_rope merged_attn.cache_encoder_keys")  # the step that writes them reads them back
DECODERS = ("encdec/ragged", "encdec/window", "decoder/ragged_decode")


def embedding(look_up: Any) -> Seed:
    def seed(patch: Patch) -> None:
        for stack in (patch.model.encoder, patch.model.decoder):
            table = stack.embed_tokens
            patch.setattr(table, "forward", lambda ids, table=table: look_up(table.weight, ids))

    return seed


def positions(change: Any) -> Seed:
    def kernel(plain: Any, inv_freq: Any, ids: Any, *rest: Any) -> Any:
        return plain(inv_freq, change(ids), *rest)

    return lambda patch: patch.function(rope.rotary_tables, kernel)


def frequencies_rounded(patch: Patch) -> None:
    def kernel(plain: Any, inv_freq: Any, *rest: Any) -> Any:
        return plain(half(torch.bfloat16)(inv_freq), *rest)

    patch.function(rope.rotary_tables, kernel)


def angles_rounded(plain: Any, inv_freq: Any, ids: Any, dtype: Any, factor: float = 1.0) -> Any:
    angles = half(torch.float16)(ids[..., None].float() * inv_freq)
    doubled = torch.cat((angles, angles), -1)
    return (doubled.cos() * factor).to(dtype), (doubled.sin() * factor).to(dtype)


def kept_keys(change: Any) -> Seed:
    """The cache holds changed keys, and what it holds is what is read."""
    return lambda patch: patch.wrap(
        DynamicCache, "update", lambda plain, cache, keys, *rest: plain(cache, change(keys), *rest)
    )


def shown(change: Any) -> Seed:
    """`change(visible)` of the booleans `[batch, 1, query, key]` that become the additive mask."""
    return lambda patch: patch.function(
        masks.additive_mask, lambda plain, visible, dtype: plain(change(visible.clone()), dtype)
    )


def first_of_each_tile_late(visible: torch.Tensor) -> torch.Tensor:
    """In tiles of 2 keys, a tile's first key is hidden from the query on the diagonal."""
    queries, keys = visible.shape[-2:]
    edge = torch.arange(min(queries, keys))[2::2]
    visible[..., edge, edge] = False
    return visible


def last_tile_skipped(visible: torch.Tensor) -> torch.Tensor:
    """The keys beyond whole tiles of 4 are never visited, where there is a whole one."""
    if visible.shape[-1] > 4 and visible.shape[-1] % 4:
        visible[..., visible.shape[-1] // 4 * 4 :] = False
    return visible


MUTANTS = (
    bug("ids-7-bits", "token ids pass through a signed byte whose sign is cut off",
        embedding(lambda w, ids: w[ids & 127]), EMBEDDED),
    bug("embedding-float16", "rows of the embedding are read in float16",
        embedding(lambda w, ids: half(torch.float16)(w[ids])), EMBEDDED),
    bug("embedding-tail-16", "channels of the embedding beyond whole blocks of 16 are not copied",
        embedding(lambda w, ids: cleared(w[ids], -1, 16)), EMBEDDED),
    bug("positions-8-bits", "positions pass through a byte", positions(lambda ids: ids & 255), TABLES,
        ("decoder/multiples_of_256", "long/position_4096")),
    bug("positions-bfloat16", "positions are rounded to bfloat16", positions(lambda ids: ids.bfloat16().long()), TABLES,
        ("decoder/multiples_of_256", "long/position_4096", "long/position_32768")),
    bug("positions-16-bits", "positions pass through a signed integer of 16 bits",
        positions(lambda ids: ids.to(torch.int16).long()), TABLES, ("long/position_32768",)),
    bug("angles-float16", "angles are rounded to float16 before cos and sin",
        lambda patch: patch.function(rope.rotary_tables, angles_rounded), TABLES),
    bug("frequencies-bfloat16", "frequencies are rounded to bfloat16 where angles are computed",
        frequencies_rounded, TABLES),
    bug("cache-fp8", "cached keys are held in float8 (e5m2)", kept_keys(half(torch.float8_e5m2)), CACHED, DECODERS),
    bug("cache-dim-tail-8", "components of cached keys beyond a block of 8 are never written",
        kept_keys(lambda keys: cleared(keys, -1, 8)), CACHED, DECODERS),
    bug("mask-tile-edge", "tiles of 2: the key on the diagonal at a tile's edge is hidden",
        shown(first_of_each_tile_late), MASKS, BOTH),
    bug("mask-last-tile", "keys beyond whole tiles of 4 are never visited", shown(last_tile_skipped), MASKS, BOTH),
)  # fmt: skip
