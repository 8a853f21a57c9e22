"""Masks by tiles, by chunks, of another row, of another request."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from detection.unseen.row import PICTURE, REQUEST, row
from qwen3_encdec import modeling_qwen3_decoder, modeling_qwen3_encoder

_MASK, _ENCODER = "merged_attn.mask", "self_attn.mask"


def _tiles(cells: Cells) -> torch.Tensor:
    return (cells.key // 4 <= cells.query // 4) & cells.near() & cells.real


def _sink(cells: Cells) -> torch.Tensor:
    return cells.rule | ((cells.key == 0) & cells.causal & cells.real)


def _chunk_alone(cells: Cells) -> torch.Tensor:
    return cells.rule & ((cells.key >= cells.past) | (len(cells.query) == 1))


def _captured_length(patch: Patch) -> None:
    lengths: list[int] = []

    def rule(cells: Cells) -> torch.Tensor:
        if len(cells.query) > 1:
            return cells.rule
        lengths.append(cells.past + 1)
        return cells.rule & (cells.key < lengths[0])

    decoder_mask(rule=rule)(patch)


def _lengths_of_next_row(patch: Patch) -> None:
    def mask(plain: Any, mine: Any, theirs: torch.Tensor, **sizes: Any) -> Any:
        return plain(mine, theirs.roll(-1, 0), **sizes)

    patch.wrap(modeling_qwen3_decoder, "merged_mask", mask)


def _encoder(change: Any) -> Seed:
    """The encoder's padding `[batch, length]` goes through `change(padding, window)`."""

    def mask(plain: Any, padding: Any, batch: int, length: int, window: Any, *rest: Any) -> Any:
        return plain(change(padding, window), batch, length, window, *rest)

    return lambda patch: patch.wrap(modeling_qwen3_encoder, "encoder_mask", mask)


def _one_longer(padding: torch.Tensor, _window: Any) -> torch.Tensor:
    real = padding.bool()
    return real | torch.nn.functional.pad(real[:, :-1], (1, 0))


def _of_first_request(patch: Patch) -> None:
    held: dict[Any, torch.Tensor] = {}

    def change(padding: torch.Tensor, window: Any) -> torch.Tensor:
        return held.setdefault((tuple(padding.shape), window), padding)

    _encoder(change)(patch)


ROWS = (
    row("S15", "cross lengths of the batch are shifted by one row", _lengths_of_next_row, _MASK,
        ["mask.other_row", "from.other_row"], "encdec/ragged", "layer"),
    row("S19", "CUDA graph: the key length of the first decode step is captured, later slots are not seen",
        _captured_length, _MASK, ["wiring.previous_step", "from.other_step", f"*: {PICTURE}",
        r"mask.*: slots? (6|from 6)"],
        "decoder/ragged_decode", "logits"),
    row("S23", "the encoder's mask is cached by batch and length: the second request has the first's",
        _of_first_request,
        _ENCODER, ["mask.earlier_request", f"*: {REQUEST}"], "encdec/second_request", "modules"),
    row("X5", "chunked prefill: the past of a later chunk stays hidden", decoder_mask(rule=_chunk_alone), _MASK,
        [f"*: {PICTURE}", "*: hides.*(past|earlier|older)|(past|earlier|older).*(hidden|ignored)|ignores its past"],
        "decoder/window_chunks", "modules"),
    row("C20", "the causal mask goes by whole query tiles of 4", decoder_mask(rule=_tiles), _MASK,
        [f"*: {PICTURE}", "*: tiles?|blocks? of 4|multiple of 4|queries 0–2 see what query 3 should"],
        "decoder/plain", "layer"),
    row("C17", "varlen encoder batch: lengths one too long, the first pad behind a text is seen", _encoder(_one_longer),
        _ENCODER, [f"*: {PICTURE}", "*: one (too long|longer|more)|first pad|one pad"], "encdec/ragged", "layer"),
    row("C26", "slot 0 stays visible outside of the window", decoder_mask(rule=_sink), _MASK,
        ["mask.*sink*", f"*: {PICTURE}", "*: (sees|shows|stays?|leaves) .*(slot 0|first (slot|key|token))|sink"],
        "decoder/window_chunks", "layer"),
)  # fmt: skip
