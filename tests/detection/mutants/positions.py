"""Wrong positions: of padded rows, of chunks, of decode steps."""

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
ALL = DECODER | words("encoder.position_ids decoder.encoder_position_ids")
STEPS = ("decoder/ragged_decode", "encdec/ragged", "encdec/window")
CHUNKS = ("decoder/window_chunks", "encdec/unrotated")
BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")


def placed(change: Change, *sides: str) -> Seed:
    """The positions of these sides ("decoder", "encoder", "memory": the encoder's in the decoder; or all) changed."""

    def side(name: str) -> str:
        return {"decoder position_ids": "decoder", "encoder position_ids": "encoder"}.get(name, "memory")

    def around(plain: Any, ids: Any, mask: Any, batch: int, length: int, past: int, name: str, device: Any) -> Any:
        found = plain(ids, mask, batch, length, past, name, device)
        return change(found, past) if not sides or side(name) in sides else found

    return lambda patch: patch.function(inputs.positions, around)


def counted(ids: torch.Tensor, past: int) -> torch.Tensor:
    """Slots for positions, padding counted."""
    return torch.arange(past, past + ids.shape[1]).expand_as(ids)


def in_steps(change: Change, first: int = 0) -> Change:
    """The change in decode steps (one token, past more than `first`) alone."""
    return lambda ids, past: change(ids, past) if past > first and ids.shape[1] == 1 else ids


def last_row(change: Change) -> Change:
    return lambda ids, past: torch.cat((ids[:-1], change(ids[-1:], past)))


def zero_is_one(ids: torch.Tensor, past: int) -> torch.Tensor:
    return ids.clamp(min=1)


def layers_apart(patch: Patch) -> None:
    """In decode steps every layer but the first sees positions of one more."""
    own_tables(patch, patch.attentions("decoder")[1:], lambda freq, ids: (freq, ids + int(ids.shape[1] == 1)))


def encoder_restarts(patch: Patch) -> None:
    """The decoder goes on where the encoder ended."""
    longest = [0]

    def keep(plain: Any, ids: Any, mask: Any, batch: int, length: int, past: int, name: str, device: Any) -> Any:
        found = plain(ids, mask, batch, length, past, name, device)
        if name.startswith("encoder"):
            longest[0] = length
        return found + longest[0] if name.startswith("decoder") else found

    patch.function(inputs.positions, keep)


MUTANTS = (
    Mutant("POS-01", "padding counted", placed(counted), ALL, words("positions.not_counting_padding"), BOTH[:1]),
    Mutant("POS-01/prefill", "padding counted in the prompt alone",
           placed(lambda ids, past: ids if past else counted(ids, past), "decoder"), DECODER,
           words("positions.not_counting_padding"), STEPS[:2]),
    Mutant("POS-02", "one position for the whole batch in decode steps",
           placed(in_steps(lambda ids, past: ids.max().expand_as(ids)), "decoder"), DECODER,
           words("positions.offset positions.not_counting_padding positions.other_row"), STEPS),
    Mutant("POS-04", "the prompt's length added again from the second step on",
           placed(in_steps(lambda ids, past: ids + 4, first=5), "decoder"), DECODER,
           words("positions.past_counted_twice positions.offset"), STEPS[:2]),
    Mutant("POS-05", "every token of a chunk at its first position",
           placed(lambda ids, past: ids[:, :1].expand_as(ids), "decoder"), DECODER, words("positions.constant"),
           CHUNKS + STEPS),
    Mutant("POS-06", "layers behind the first are one position ahead in decode steps", layers_apart,
           words("merged_attn.q_rope merged_attn.k_rope"), words("rope.other_position"), STEPS),
    Mutant("POS-09", "width of the batch for the past", placed(in_steps(counted), "decoder"), DECODER,
           words("positions.not_counting_padding positions.offset positions.other_row"), STEPS),
    Mutant("ROP-29", "positions from 1", placed(lambda ids, past: ids + 1), ALL, words("positions.offset"), BOTH),
    Mutant("own/positions-restarted", "a chunk starts at 0 again", placed(lambda ids, past: ids - past, "decoder"),
           DECODER, words("positions.restarted positions.offset"), CHUNKS + STEPS),
    Mutant("own/positions-past-twice", "past added twice", placed(lambda ids, past: ids + past, "decoder"), DECODER,
           words("positions.past_counted_twice positions.offset"), CHUNKS + STEPS),
    Mutant("own/positions-row", "the row before's positions", placed(lambda ids, past: ids.roll(1, 0)), ALL,
           words("positions.other_row"), BOTH[:1]),
    Mutant("own/positions-last-row", "the last row one ahead", placed(last_row(lambda ids, past: ids + 1), "decoder"),
           DECODER, words("positions.offset fit.concentrated"), STEPS),
    Mutant("own/positions-first", "position 0 never used", placed(zero_is_one), ALL,
           words("positions.first positions.offset"), BOTH),
    Mutant("own/positions-reversed", "counted from the right", placed(lambda ids, past: ids.flip(1), "encoder"),
           words("encoder.position_ids"), words("positions.reversed"), BOTH[:1] + BOTH[3:]),
    Mutant("own/positions-doubled", "positions times two", placed(lambda ids, past: ids * 2), ALL,
           words("positions.scaled"), BOTH),
    Mutant("own/positions-late", "one behind from the second decode step on",
           placed(in_steps(lambda ids, past: ids - 1, first=5), "decoder"), DECODER, words("positions.offset"), STEPS),
    Mutant("own/positions-last-step", "one ahead in the last step alone",
           placed(in_steps(lambda ids, past: ids + 1, first=7), "decoder"), DECODER, words("positions.offset"),
           STEPS[:1]),
    Mutant("own/positions-decoder-continues", "the decoder goes on where the encoder ended", encoder_restarts, DECODER,
           words("positions.offset"), STEPS[1:]),
    Mutant("own/positions-memory", "padding counted for the encoder's keys alone", placed(counted, "memory"),
           words("decoder.encoder_position_ids"), words("positions.not_counting_padding"), STEPS[1:2]),
    Mutant("own/positions-wrapped", "positions modulo 8", placed(lambda ids, past: ids % 8), ALL,
           words("positions.wrapped"), ("encdec/window", "decoder/window_chunks", "encoder/window_even")),
    Mutant("own/positions-zero", "no positions", placed(lambda ids, past: ids * 0), ALL, words("positions.constant"),
           BOTH),
)  # fmt: skip
