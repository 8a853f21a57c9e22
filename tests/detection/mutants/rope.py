"""Rotations of what is not to be rotated: values, cached keys."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from detection.mutants.mutant import Mutant, words
from detection.mutants.patch import Patch
from qwen3_encdec import merged_attention, rope

BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")


def values_too(patch: Patch) -> None:
    tables: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(plain: Any, q: Any, k: Any, *rotations: Any) -> Any:
        tables[:] = [rotations]
        return plain(q, k, *rotations)

    def update(plain: Any, cache: Any, keys: Any, values: Any, *rest: Any) -> Any:
        fits = tables and values.shape[2] == tables[0][0].shape[1]
        return plain(cache, keys, rope.apply_rotary(values, *tables.pop()) if fits else values, *rest)

    patch.wrap(merged_attention, "apply_rotary_pos_emb", keep)
    patch.wrap(DynamicCache, "update", update)


def rotated_again(patch: Patch) -> None:
    rotations: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(plain: Any, table: Any, x: Any, ids: Any) -> Any:
        rotation = plain(table, x, ids)
        if table is patch.model.decoder.rotary_emb:
            cos, sin = rotations.pop() if rotations else (rotation[0][:, :0], rotation[1][:, :0])
            rotations.append((torch.cat((cos, rotation[0]), 1), torch.cat((sin, rotation[1]), 1)))
        return rotation

    def update(plain: Any, cache: Any, keys: Any, values: Any, index: int, *rest: Any) -> Any:
        past = cache.get_seq_length(index)
        if past:
            held = cache.layers[index]
            held.keys = rope.apply_rotary(held.keys, *(table[:, :past] for table in rotations[0]))
        return plain(cache, keys, values, index, *rest)

    patch.wrap(rope.Qwen3RotaryEmbedding, "forward", keep)
    patch.wrap(DynamicCache, "update", update)


MUTANTS = (
    Mutant("ROP-24", "values rotated too", values_too, words("merged_attn.cache_values"),
           words("context.value_rotated cache.values_rotated"), BOTH[:3]),
    Mutant("ROP-25", "cached keys rotated again at every step", rotated_again, words("merged_attn.cache_keys"),
           words("cache.rerotated"), BOTH[:3]),
)  # fmt: skip
