"""Masks of others: windows that a path forgets, cuts to the end of the keys or doubles, and documents that leak."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.first.masks import encoder_rule, near, single
from detection.blind.row import row
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.patch import Patch
from qwen3_encdec import masks


def new_keys_unwindowed(cells: Cells) -> torch.Tensor:
    """The window is on what was cached; among themselves new tokens are causal alone."""
    return cells.causal & (cells.near() | (cells.key >= cells.past)) & cells.real


def trailing_keys(cells: Cells) -> torch.Tensor:
    """A prompt longer than the window is cut to the last keys that fit in it, for each of its queries."""
    length = len(cells.query)
    if cells.window is None or cells.past or length <= cells.window:
        return cells.rule
    return cells.causal & (cells.key >= length - cells.window) & cells.real


def causal_to_the_end(patch: Patch) -> None:
    """What is causal is visible, whatever document it belongs to; what a given mask shows is visible as well."""

    def around(plain: Any, *args: Any) -> torch.Tensor:
        mask: torch.Tensor = plain(*args)
        query, key = mask.shape[-2:]
        causal = torch.ones(query, key, dtype=torch.bool).tril(key - query)
        return mask.masked_fill(causal, 0.0)

    patch.function(masks.explicit_mask, around)


def continued_unwindowed(cells: Cells) -> torch.Tensor:
    """A later chunk's mask does not fit its keys and is thrown away, and a causal one stands for it."""
    return cells.causal & cells.real if cells.past and not single(cells) else cells.rule


def twice_as_wide(distance: torch.Tensor, real: torch.Tensor, window: int | None) -> torch.Tensor:
    return near(distance, window * 2 if window else None) & real[:, None]


def everything(distance: torch.Tensor, real: torch.Tensor, _window: int | None) -> torch.Tensor:
    """Neither the window nor the padding mask reaches the kernel."""
    return torch.ones_like(distance, dtype=torch.bool).expand(len(real), -1, -1)


_MERGED, _OWN = "merged_attn.mask", "self_attn.mask"
_ENCODER, _PROMPTS = "encoder/window_odd encoder/window_even", "encdec/window encdec/second_request"

ROWS = (
    row("F013", "new tokens of a call have no window among themselves", "apache/tvm#18630", "window",
        _PROMPTS, decoder_mask(rule=new_keys_unwindowed), _MERGED),
    row("F014", "a prompt longer than the window is cut to the last keys for all of its queries",
        "lablup/mlxcel#405", "window", _PROMPTS, decoder_mask(rule=trailing_keys), _MERGED),
    row("F015", "documents of one sequence see the documents before them",
        "DeepOpt-com/WrinkleFree-Monorepo#53", "documents", "decoder/mask_4d", causal_to_the_end, _MERGED),
    row("F016", "later chunks of a prompt are causal alone: their windowed mask is discarded", "lablup/mlxcel#885",
        "window", "decoder/window_chunks", decoder_mask(rule=continued_unwindowed), _MERGED),
    row("F017", "the encoder's window reaches twice as far to each side", "keras-team/keras-hub#2518", "window",
        _ENCODER, encoder_rule(twice_as_wide), _OWN),
    row("F018", "a fused kernel gets neither the encoder's window nor its padding mask",
        "vllm-project/semantic-router#3406", "window", _ENCODER, encoder_rule(everything), _OWN),
)  # fmt: skip
