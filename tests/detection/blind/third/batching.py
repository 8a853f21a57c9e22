"""Batches of others whose rows get each other's masks, none at all, or a mask that ends too early."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_decoder

_LONGEST, _HEADS = 10, 6
"""Slots that a static mask has a row; query heads."""


def without_stride(cells: Cells) -> torch.Tensor:
    """The mask is filled without gaps between its rows, and its rows are read `_LONGEST` slots apart."""
    real = cells.real.expand(-1, 1, -1)
    batch, _, keys = real.shape
    flat = torch.nn.functional.pad(real.flatten(), (0, batch * _LONGEST))
    read = torch.stack([flat[index * _LONGEST : index * _LONGEST + keys] for index in range(batch)])
    return cells.causal & cells.near() & read[:, None]


def first_row_alone(cells: Cells) -> torch.Tensor:
    """The causal mask is as large as one row's; behind it nothing is hidden."""
    if len(cells.query) == 1:
        return cells.rule
    first = torch.arange(len(cells.rule))[:, None, None] == 0
    return torch.where(first, cells.rule, cells.real.expand_as(cells.rule))


def cut_by_heads(cells: Cells) -> torch.Tensor:
    """The mask is cut to the number of heads, which stands where the number of keys was looked for."""
    return cells.rule & (cells.key < _HEADS)


def padding_unknown(patch: Patch) -> None:
    """What the tokenizer padded reaches neither the caches' offsets nor their masks."""

    def positions(plain: Any, *args: Any) -> Any:
        result = plain(*args)
        counted = torch.arange(args[3]).expand(len(result), -1) + args[4]
        return counted if args[5] == "decoder position_ids" else result

    patch.wrap(modeling_qwen3_decoder, "positions", positions)
    decoder_mask(rule=lambda cells: (cells.causal & cells.near()).expand_as(cells.rule))(patch)


_MASK = "merged_attn.mask"

ROWS = (
    row("E066", "a static padding mask is filled without its row stride: rows get parts of each other's, or nothing",
        "microsoft/onnxruntime-genai#1639", "padding", "decoder/ragged_decode decoder/plain_two_rows",
        decoder_mask(rule=without_stride), _MASK),
    row("E067", "the causal mask is one row's: rows behind the first see later tokens", "huggingface/candle#3582",
        "causality", "decoder/plain_two_rows encdec/unpadded", decoder_mask(rule=first_row_alone), _MASK),
    row("E068", "the padding mask is cut to as many keys as there are heads: later ones are hidden",
        "huggingface/transformers#36477", "padding", "decoder/ragged_decode decoder/inputs_embeds",
        decoder_mask(rule=cut_by_heads), _MASK),
    row("E069", "padding on the left is dropped before the caches hear of it: it is seen, and positions count it",
        "Blaizzy/mlx-vlm#1946", "padding", "decoder/head_dim_64_ragged decoder/inputs_embeds", padding_unknown,
        f"{_MASK} decoder.position_ids"),
)  # fmt: skip
