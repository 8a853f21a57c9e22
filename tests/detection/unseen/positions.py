"""Positions that a server counts wrongly: of drafts, of prefixes, of replayed graphs, of the request before."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.frequencies import TABLES
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from detection.mutants.positions import in_steps, placed
from detection.unseen.row import REQUEST, row
from qwen3_encdec import inputs, rope
from qwen3_encdec.modeling_qwen3_encoder import Qwen3Encoder

_PLACES, _STEPS, _SECOND = "decoder.position_ids", "decoder/ragged_decode", "encdec/second_request"


def requests(patch: Patch) -> list[int]:
    """How many requests have begun, as a list of one number."""
    begun = [0]

    def forward(plain: Any, stack: Any, *args: Any, **kwargs: Any) -> Any:
        begun[0] += 1
        return plain(stack, *args, **kwargs)

    patch.wrap(Qwen3Encoder, "forward", forward)
    return begun


def _replayed(patch: Patch) -> None:
    first: list[torch.Tensor] = []

    def change(ids: torch.Tensor, _past: int) -> torch.Tensor:
        first.append(ids)
        return first[0]

    placed(in_steps(change))(patch)


def _not_reset(patch: Patch) -> None:
    begun, prompts, length = requests(patch), [0], [0]

    def around(plain: Any, ids: Any, mask: Any, batch: int, new: int, past: int, name: str, device: Any) -> Any:
        counted = plain(ids, mask, batch, new, past, name, device)
        if name != "decoder position_ids":
            return counted
        prompts[0] += past == 0
        if prompts[0] == 1:
            length[0] = past + new
        return counted + length[0] if begun[0] > 1 else counted

    patch.function(inputs.positions, around)


def _stretched(patch: Patch) -> None:
    begun = requests(patch)

    def forward(plain: Any, table: Any, x: torch.Tensor, ids: torch.Tensor) -> Any:
        if begun[0] < 2:
            return plain(table, x, ids)
        return rope.rotary_tables(table.inv_freq / 2, ids, x.dtype, table.attention_factor)

    patch.wrap(rope.Qwen3RotaryEmbedding, "forward", forward)


def _slots_of_encoder() -> Seed:
    def around(plain: Any, ids: Any, mask: Any, batch: int, new: int, past: int, name: str, device: Any) -> Any:
        slots = name == "encoder_position_ids"
        return plain(ids, None if slots else mask, batch, new, past, name, device)

    return lambda patch: patch.function(inputs.positions, around)


ROWS = (
    row("S2", "the position counter is not rolled back behind rejected drafts: one more ahead in every step",
        placed(in_steps(lambda ids, past: ids + past - 5, first=5)), _PLACES,
        ["*: one more|grow|1, 2(,| and) 3|more with each step"], _STEPS, "layer logits"),
    row("X2", "a prefix cache keeps one token less: decode steps are one position behind",
        placed(in_steps(lambda ids, past: ids - 1)), _PLACES, ["positions.offset"], _STEPS, "layer"),
    row("S18", "CUDA graph: the position of the first decode step is captured and replayed", _replayed, _PLACES,
        ["wiring.previous_step", "from.other_step", "positions.*: first decode step"], _STEPS, "layer"),
    row("S24", "the position counter is not reset between requests", _not_reset, _PLACES,
        ["positions.earlier_request", f"*: {REQUEST}"], _SECOND, "layer"),
    row("S22", "dynamic NTK: the frequencies that the first request stretched serve the second", _stretched, TABLES,
        ["table.linear_scaling", "table.ntk_scaling", f"*: {REQUEST}"], _SECOND, "layer"),
    row("X26", "the decoder turns the encoder's keys by slot, the encoder counts real tokens", _slots_of_encoder(),
        "decoder.encoder_position_ids", ["positions.not_counting_padding"], "encdec/ragged", "layer"),
)  # fmt: skip
