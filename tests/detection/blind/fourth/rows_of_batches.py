"""Batches of others: positions that rows share, rows that are put back over each other, one row's end for all."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch

from detection.blind.first.masks import encoder_rule, near
from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_decoder


def gaps(real: torch.Tensor) -> list[tuple[int, int]]:
    """Where a row's padding starts and stops, run by run."""
    runs: list[tuple[int, int]] = []
    for is_real, run in groupby(range(len(real)), key=lambda slot: bool(real[slot])):
        slots = list(run)
        runs += [] if is_real else [(slots[0], slots[-1] + 1)]
    return runs


def one_storage(patch: Patch) -> None:
    """Positions are expanded over the batch without a copy, and each row's padding is taken off all rows'."""

    def positions(plain: Any, *args: Any) -> Any:
        mask, length, past = args[1], args[3], args[4]
        if args[5] != "decoder position_ids" or mask is None:
            return plain(*args)
        shared = torch.arange(mask.shape[1])
        for real in mask:
            for start, stop in gaps(real):
                shared[start:stop] = shared[start - 1] if start else 0
                shared[stop:] -= stop - start
        return shared[past : past + length].expand(len(mask), -1)

    patch.wrap(modeling_qwen3_decoder, "positions", positions)


def unsorted_in_place(patch: Patch) -> None:
    """Rows run in the order of their lengths and are scattered back into the tensor that they are read from."""
    lengths: list[torch.Tensor] = []

    def positions(plain: Any, *args: Any) -> Any:
        if args[5] == "decoder position_ids" and args[1] is not None:
            lengths[:] = [args[1].long().sum(1)]
        return plain(*args)

    def scattered(logits: torch.Tensor) -> torch.Tensor:
        order = lengths[0].argsort(descending=True, stable=True)
        result = logits[order].clone()
        for source, target in enumerate(order.tolist()):
            result[target] = result[source].clone()
        return result

    patch.wrap(modeling_qwen3_decoder, "positions", positions)
    patch.result(patch.model.lm_head, "forward", scattered)


def split_at_first_row(distance: torch.Tensor, real: torch.Tensor, window: int | None) -> torch.Tensor:
    """Every row is two sequences, cut where the first row's tokens end."""
    second = torch.arange(real.shape[1]) >= int(real[0].sum())
    return (near(distance, window) & (second[:, None] == second))[None].expand(len(real), -1, -1)


ROWS = (
    row("F063", "the rows' positions share their memory: each row's padding is taken off all of them",
        "QwenLM/Qwen-VL#436", "aliasing", "decoder/window_chunks encdec/unrotated", one_storage,
        "decoder.position_ids"),
    row("F064", "rows are put back in order in place: one row's logits are written over another's before they are read",
        "mead-ml/mead-baseline#677", "aliasing", "decoder/ragged_decode", unsorted_in_place, "logits"),
    row("F065", "every row of the batch is cut in two where the first row's tokens end",
        "Tencent-Hunyuan/HunyuanVideo#310", "padding", "encdec/second_request", encoder_rule(split_at_first_row),
        "self_attn.mask"),
)  # fmt: skip
