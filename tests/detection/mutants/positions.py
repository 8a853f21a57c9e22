"""Wrong positions: of chunks, of decode steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.mutants.frequencies import own_tables
from detection.mutants.mutant import Mutant, Seed, words
from detection.mutants.patch import Patch
from qwen3_encdec import inputs

Change = Callable[[torch.Tensor, int], torch.Tensor]
"""`change(positions, past)`: `[batch, query]` to the same."""

DECODER = words("decoder.position_ids")
STEPS = ("decoder/ragged_decode", "encdec/ragged", "encdec/window")
CHUNKS = ("decoder/window_chunks", "encdec/unrotated")


def placed(change: Change) -> Seed:
    """The decoder's positions changed."""

    def around(plain: Any, ids: Any, mask: Any, batch: int, length: int, past: int, name: str, device: Any) -> Any:
        computed = plain(ids, mask, batch, length, past, name, device)
        return change(computed, past) if name == "decoder position_ids" else computed

    return lambda patch: patch.function(inputs.positions, around)


def counted(ids: torch.Tensor, past: int) -> torch.Tensor:
    """Slots for positions, padding counted."""
    return torch.arange(past, past + ids.shape[1]).expand_as(ids)


def in_steps(change: Change, first: int = 0) -> Change:
    """The change in decode steps (one token, past more than `first`) alone."""
    return lambda ids, past: change(ids, past) if past > first and ids.shape[1] == 1 else ids


def layers_apart(patch: Patch) -> None:
    """In decode steps every layer but the first sees positions of one more."""
    own_tables(patch, patch.attentions("decoder")[1:], lambda freq, ids: (freq, ids + int(ids.shape[1] == 1)))


def encoder_restarts(patch: Patch) -> None:
    """The decoder goes on where the encoder ended."""
    longest = [0]

    def keep(plain: Any, ids: Any, mask: Any, batch: int, length: int, past: int, name: str, device: Any) -> Any:
        position_ids = plain(ids, mask, batch, length, past, name, device)
        if name.startswith("encoder"):
            longest[0] = length
        return position_ids + longest[0] if name.startswith("decoder") else position_ids

    patch.function(inputs.positions, keep)


MUTANTS = (
    Mutant("POS-01/prefill", "padding counted in the prompt alone",
           placed(lambda ids, past: ids if past else counted(ids, past)), DECODER,
           words("positions.not_counting_padding"), STEPS[:2]),
    Mutant("POS-02", "one position for the whole batch in decode steps",
           placed(in_steps(lambda ids, past: ids.max().expand_as(ids))), DECODER,
           words("positions.offset positions.not_counting_padding positions.other_row"), STEPS),
    Mutant("POS-04", "the prompt's length added again from the second step on",
           placed(in_steps(lambda ids, past: ids + 4, first=5)), DECODER,
           words("positions.past_counted_twice positions.offset"), STEPS[:2]),
    Mutant("POS-05", "every token of a chunk at its first position",
           placed(lambda ids, past: ids[:, :1].expand_as(ids)), DECODER, words("positions.constant"), CHUNKS + STEPS),
    Mutant("POS-06", "layers behind the first are one position ahead in decode steps", layers_apart,
           words("merged_attn.q_rope merged_attn.k_rope"), words("rope.other_position"), STEPS),
    Mutant("POS-09", "width of the batch for the past", placed(in_steps(counted)), DECODER,
           words("positions.not_counting_padding positions.offset positions.other_row"), STEPS),
    Mutant("own/positions-restarted", "a chunk starts at 0 again", placed(lambda ids, past: ids - past),
           DECODER, words("positions.restarted positions.offset"), CHUNKS + STEPS),
    Mutant("own/positions-past-twice", "past added twice", placed(lambda ids, past: ids + past), DECODER,
           words("positions.past_counted_twice positions.offset"), CHUNKS + STEPS),
    Mutant("own/positions-late", "one behind from the second decode step on",
           placed(in_steps(lambda ids, past: ids - 1, first=5)), DECODER, words("positions.offset"), STEPS),
    Mutant("own/positions-last-step", "one ahead in the last step alone",
           placed(in_steps(lambda ids, past: ids + 1, first=7)), DECODER, words("positions.offset"), STEPS[:1]),
    Mutant("own/positions-decoder-continues", "the decoder goes on where the encoder ended", encoder_restarts, DECODER,
           words("positions.offset"), STEPS[1:]),
)  # fmt: skip
