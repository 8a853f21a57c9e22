"""Steps of several tokens of others, and blocks that rows share: what later steps find in the slots they wrote."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.cache_seeds import Pair, own_cache
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch

_BLOCK = 4


def after_chunks(change: Any, layers: Any = lambda _depth, _layer: True) -> Seed:
    """In calls behind one of several tokens that had a past, `change(x, start, stop)` writes into that one's slots."""

    def seed(patch: Patch) -> None:
        depth = len(patch.layers("decoder"))

        def read(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
            chunks = vars(cache).setdefault("chunks", {}).setdefault(layer, [])
            for start, stop in chunks if layers(depth, layer) else ():
                for x in pair:
                    change(x, start, stop)
            if past and pair[0].shape[2] > past + 1:
                chunks.append((past, pair[0].shape[2]))
            return pair

        own_cache(read, keep=False)(patch)

    return seed


def sibling_left(x: torch.Tensor, start: int, stop: int) -> None:
    """The second drafted token was rejected for its sibling, which stands behind it, and nothing was moved up."""
    drafted = x.clone()
    x[:, :, start + 1] = drafted.roll(1, 0)[:, :, start + 1]
    x[:, :, start + 2 : stop] = drafted[:, :, start + 1 : stop - 1]


def last_alone(x: torch.Tensor, start: int, stop: int) -> None:
    x[:, :, start : stop - 1] = 0


def shared_tail(cache: Any, pair: Pair, _past: int, layer: int) -> Pair:
    """Rows share the block that the prompt ends in: behind the prompt each writes into it, and the last one stays."""
    prompt = vars(cache).setdefault("prompts", {}).setdefault(layer, pair[0].shape[2])
    stop = -(-prompt // _BLOCK) * _BLOCK
    for x in pair:
        x[:, :, prompt:stop] = x[-1:, :, prompt:stop].clone()
    return pair


_BOTH = "merged_attn.cache_keys merged_attn.cache_values"
_NEWEST = "merged_attn.k_rope merged_attn.cache_values"

ROWS = (
    row("D109", "the first stage keeps a rejected sibling's slot: accepted tokens behind it are not moved up",
        "sgl-project/sglang#30775", "speculation", "encdec/unrotated decoder/window_chunks",
        after_chunks(sibling_left, lambda depth, layer: layer < depth // 2), _BOTH),
    row("D110", "of a short chunk's tokens, written as if each were another user's, the last one is left",
        "mudler/vllm.cpp#2669", "chunks", "decoder/window_chunks encdec/unrotated", after_chunks(last_alone), _BOTH),
    row("D111", "a block that the rows' prompts end in is shared, and every row goes on writing into it",
        "Avarok-Cybersecurity/atlas#1193", "prefix cache", "decoder/plain_two_rows decoder/ragged_decode",
        own_cache(shared_tail, keep=False), _NEWEST, also="merged_attn.cache_keys"),
)  # fmt: skip
