"""Seeded bugs of a decode step that need more than the slots: unrotated keys, norms, ids and positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.mutants.cache_seeds import Pair, own_cache
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import merged_attention, modeling_qwen3_decoder
from qwen3_encdec.modeling_qwen3_decoder import Qwen3Decoder


def cached_before_rope(patch: Patch) -> None:
    """Older keys are found as they were before RoPE."""
    raw: list[torch.Tensor] = []

    def rotate(plain: Any, q: torch.Tensor, k: torch.Tensor, *tables: torch.Tensor) -> Any:
        raw[:] = [k]
        return plain(q, k, *tables)

    def read(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
        unrotated = vars(cache).setdefault("unrotated", {})
        unrotated[layer] = torch.cat((unrotated[layer], raw[0]), 2) if layer in unrotated else raw[0]
        pair[0][:, :, :past] = unrotated[layer][:, :, :past]
        return pair

    patch.wrap(merged_attention, "apply_rotary_pos_emb", rotate)
    own_cache(read, keep=False)(patch)


def normed_again(patch: Patch) -> None:
    """Older keys go through k_norm at every step."""
    norms = [attention.k_norm for attention in patch.attentions("decoder")]

    def read(_cache: Any, pair: Pair, past: int, layer: int) -> Pair:
        pair[0][:, :, :past] = norms[layer].forward(pair[0][:, :, :past])  # no call: it is no tap
        return pair

    own_cache(read)(patch)


def token_twice(patch: Patch) -> None:
    """The first decode step is fed the last token of the prompt."""
    last: list[torch.Tensor] = []

    def forward(plain: Any, stack: Any, input_ids: torch.Tensor, past_key_values: Any = None, **kwargs: Any) -> Any:
        first_decode = past_key_values is not None and len(last) == 1
        last.append(input_ids[:, -1:])
        ids = last[0].expand_as(input_ids) if first_decode else input_ids
        return plain(stack, input_ids=ids, past_key_values=past_key_values, **kwargs)

    patch.wrap(Qwen3Decoder, "forward", forward)


def moved_positions(shift: Callable[[int, int, int], int]) -> Seed:
    """`shift(past, call, encoder length)` is added to the decoder's positions."""

    def seed(patch: Patch) -> None:
        calls: list[int] = []

        def forward(plain: Any, stack: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("past_key_values") is None:
                calls.clear()
            calls.append(kwargs["encoder_hidden_states"].shape[1])
            return plain(stack, *args, **kwargs)

        def positions(plain: Any, *args: Any) -> Any:
            past, name = args[4:6]
            return plain(*args) + (shift(past, len(calls) - 1, calls[-1]) if name == "decoder position_ids" else 0)

        patch.wrap(Qwen3Decoder, "forward", forward)
        patch.wrap(modeling_qwen3_decoder, "positions", positions)

    return seed
