"""Masks of others: windows, padding and causality, and what a mask is made of and given to."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.first.masks import encoder_rule, near, single
from detection.blind.row import row
from detection.mutants.mask_seeds import Cells, constants, decoder_mask
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec.modeling_qwen3_decoder import Qwen3Decoder

_BLOCK = 4


def one_more(cells: Cells) -> torch.Tensor:
    return cells.causal & cells.near(1) & cells.real


def one_less_in_steps(cells: Cells) -> torch.Tensor:
    return cells.causal & cells.near(-1) & cells.real if single(cells) else cells.rule


def windows_exchanged(patch: Patch) -> None:
    """Layers with a window have the mask of those without, and the other way round."""

    def masks(plain: Any, stack: Any, *args: Any) -> Any:
        masks_of_layers = plain(stack, *args)
        kinds = stack.config.layer_types
        by_kind = dict(zip(kinds, masks_of_layers, strict=True))
        exchanged = dict(zip(by_kind, reversed(by_kind.values()), strict=True))
        return [exchanged[kind] for kind in kinds]

    patch.wrap(Qwen3Decoder, "_masks", masks)


def by_block(cells: Cells) -> torch.Tensor:
    return (cells.key // _BLOCK <= cells.query // _BLOCK) & cells.near() & cells.real


def upper_triangle(cells: Cells) -> torch.Tensor:
    return cells.rule if single(cells) else (cells.distance < 0) & cells.near() & cells.real


def padding_alone(distance: torch.Tensor, real: torch.Tensor, window: int | None) -> torch.Tensor:
    return near(distance, window) & ~real[:, None]


def tiny(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(visible.shape, dtype=dtype).masked_fill(~visible, -1e-9)


def added_as_booleans(patch: Patch) -> None:
    patch.function(
        code.probabilities,
        lambda _plain, scores, mask, dtype: (scores + (mask == 0).to(scores.dtype)).softmax(-1).to(dtype),
    )


def windowed_memory(cells: Cells) -> torch.Tensor:
    """The encoder's cache holds the last `window - 1` slots from the second call on."""
    if not cells.past or cells.window is None:
        return cells.real
    return cells.real & (cells.key > cells.key.shape[1] - cells.window)


def rows_repeated_for_heads(patch: Patch) -> None:
    """Heads lie before rows, `[heads * batch]`, and each row's mask is repeated as if they lay behind."""

    def around(plain: Any, scores: torch.Tensor, mask: torch.Tensor, dtype: torch.dtype) -> Any:
        batch, heads = scores.shape[:2]
        order = (torch.arange(heads * batch) // heads).view(heads, batch).T
        return plain(scores, mask[:, 0][order], dtype)

    patch.function(code.probabilities, around)


_WINDOWS = "decoder/window_chunks encdec/window"
_MERGED, _OWN = "merged_attn.mask", "self_attn.mask"
_PROBS = "merged_attn.probs self_attn.probs"

ROWS = (
    row("D025", "the window is handed to a kernel that counts it without the token itself: one key more",
        "huggingface/transformers#39408", "window", "decoder/window_even decoder/window_chunks",
        decoder_mask(rule=one_more), _MERGED),
    row("D026", "decode steps clamp to the window without the new token: one key less",
        "lightseekorg/tokenspeed#578", "window", _WINDOWS, decoder_mask(rule=one_less_in_steps), _MERGED),
    row("D027", "the pattern of layers is counted from 1: windows stand in the other layers",
        "NVIDIA-NeMo/Megatron-Bridge#4875", "window", _WINDOWS, windows_exchanged, _MERGED),
    row("D028", "causality holds between blocks alone: a query sees its own block to the end",
        "tenstorrent/tt-metal#48700", "causality", "decoder/ragged_decode decoder/plain",
        decoder_mask(rule=by_block), _MERGED),
    row("D029", "a mask of what is hidden is taken for what is seen: only later tokens are",
        "rasbt/LLMs-from-scratch#1061", "causality", "decoder/plain_two_rows decoder/head_dim_64",
        decoder_mask(rule=upper_triangle), _MERGED),
    row("D030", "the padding mask is inverted: padding is seen and tokens are hidden",
        "InseeFrLab/torchTextClassifiers#92", "padding", "encoder/ragged encoder/window_odd",
        encoder_rule(padding_alone), _OWN),
    row("D031", "hidden cells get -1e-9, a typo of -1e9, so that nothing is hidden", "Shujun-He/RibonanzaNet#5",
        "mask values", "encdec/ragged encdec/unrotated", constants(tiny), _PROBS, also=f"{_MERGED} {_OWN}"),
    row("D032", "a boolean mask is added to the scores as it is: 1 where visible, 0 where hidden",
        "huggingface/transformers#41443", "mask values", "decoder/head_dim_64_ragged decoder/ragged_decode",
        added_as_booleans, _PROBS),
    row("D033", "the mask that is given is ignored, and a causal one used", "NVIDIA/Megatron-LM#2357", "causality",
        "decoder/mask_4d", decoder_mask(), _MERGED),
    row("D034", "the cache of the encoder's keys took over the decoder's window", "huggingface/transformers#46111",
        "window", "encdec/window encdec/second_request", decoder_mask(memory=windowed_memory), _MERGED),
    row("D035", "heads attend by the masks of other rows", "lsdefine/attention-is-all-you-need-keras#36", "padding",
        "encoder/ragged encoder/window_odd", rows_repeated_for_heads, "self_attn.probs"),
)  # fmt: skip
