"""Embeddings and heads of others: rows of shards, positions that are none, and what a head reads."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch

_RANKS = 2


def floor_of_shards(patch: Patch) -> None:
    """Each rank has a whole quotient of rows: ids behind the last rank's are nobody's, and give 0."""

    def lookup(plain: Any, ids: torch.Tensor, rows: int) -> torch.Tensor:
        result: torch.Tensor = plain(ids) * (ids < rows // _RANKS * _RANKS)[..., None]
        return result

    for stack in (patch.model.encoder, patch.model.decoder):
        table = stack.embed_tokens
        patch.wrap(table, "forward", lambda plain, ids, rows=table.num_embeddings: lookup(plain, ids, rows))


def head_never_filled(patch: Patch) -> None:
    """A tied head is made as one of its own, of zeros, and no tensor of the checkpoint is for it."""
    weight = torch.zeros_like(patch.model.lm_head.weight)
    patch.setattr(patch.model.lm_head, "forward", lambda x: torch.nn.functional.linear(x, weight))


def positions_not_added(patch: Patch) -> None:
    latest: list[torch.Tensor] = []

    def keep(rows: torch.Tensor) -> torch.Tensor:
        latest[:] = [rows]
        return rows

    patch.result(patch.model.embed_positions, "forward", keep)
    patch.on_input(patch.model.dropout, lambda x: x - latest[0])


def rows_for_positions(patch: Patch) -> None:
    """`arange(x.size(0))` of `[batch, length]`: each row has one position, its number in the batch."""
    batch: list[int] = []

    def forward(plain: Any, ids: torch.Tensor, *args: Any) -> Any:
        batch[:] = [len(ids)]
        return plain(ids, *args)

    patch.wrap(patch.model, "forward", forward)
    patch.wrap(
        patch.model.embed_positions,
        "forward",
        lambda plain, ids: plain(torch.arange(batch[0])[:, None].expand(-1, len(ids))),
    )


def types_for_positions(patch: Patch) -> None:
    """The ids of segments are handed on as those of positions, and they are 0."""
    patch.wrap(patch.model.embed_positions, "forward", lambda plain, ids: plain(torch.zeros_like(ids)))


def first_tokens_state(patch: Patch) -> None:
    """Behind a prompt the head reads its first token's state for its last one."""

    def forward(plain: Any, x: torch.Tensor) -> Any:
        return plain(torch.cat((x[:, :-1], x[:, :1]), dim=1))

    patch.wrap(patch.model.lm_head, "forward", forward)


_LEARNED = "classic/post_norm classic/pre_norm"
_POSITIONS = "pre_norm.embed_positions post_norm.embed_positions"

ROWS = (
    row("F037", "the last ids of a vocabulary that ranks do not divide have no embedding",
        "huggingface/text-generation-inference#1463", "vocabulary shards", "decoder/plain encdec/unrotated",
        floor_of_shards, "decoder.embed_tokens encoder.embed_tokens"),
    row("F038", "a tied head is untied and stays as it was made, all zeros", "GradientHQ/parallax#444", "head",
        "encdec/ragged decoder/plain", head_never_filled, "logits"),
    row("F039", "positions are not added to the embeddings",
        "santhoshkolloju/Abstractive-Summarization-With-Transfer-Learning#21", "learned positions", _LEARNED,
        positions_not_added, "pre_norm.embeddings post_norm.embeddings"),
    row("F040", "positions are counted along the batch: all tokens of a row have one",
        "cmu-l3/anlp-fall2025-code#1", "learned positions", "classic/pre_norm classic/post_norm", rows_for_positions,
        _POSITIONS, levels="modules layer"),
    row("F041", "segments' ids are taken for positions: all tokens have position 0", "HKU-MedAI/MGCA#13",
        "learned positions", _LEARNED, types_for_positions, _POSITIONS),
    row("F042", "behind a prompt the head reads the first token's state instead of the last one's",
        "huggingface/transformers#48703", "head", "decoder/plain_two_rows decoder/window_chunks", first_tokens_state,
        "logits"),
)  # fmt: skip
