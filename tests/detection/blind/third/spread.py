"""Sequences and vocabularies of others that are spread over ranks: positions and offsets of shards."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_decoder


def counted_on_each_rank(patch: Patch) -> None:
    """Two ranks hold a half of the prompt each, and each counts its tokens from 0."""

    def positions(plain: Any, *args: Any) -> Any:
        result, length = plain(*args), args[3]
        if args[5] != "decoder position_ids" or args[4] or length < 2:
            return result
        half = (length + 1) // 2
        return torch.cat((result[:, :half], torch.arange(length - half).expand(len(result), -1)), dim=1)

    patch.wrap(modeling_qwen3_decoder, "positions", positions)


def gathered_at_first(patch: Patch) -> None:
    """The second shard's logits are copied to column 0 instead of behind the first one's."""

    def forward(y: torch.Tensor) -> torch.Tensor:
        first = (y.shape[-1] + 1) // 2
        result = torch.cat((y[..., :first], torch.zeros_like(y[..., first:])), dim=-1)
        result[..., : y.shape[-1] - first] = y[..., first:]
        return result

    patch.result(patch.model.lm_head, "forward", forward)


ROWS = (
    row("E088", "ranks that share a sequence each count their tokens from 0", "vllm-project/speculators#871",
        "sequence parallel", "decoder/plain_two_rows encdec/unpadded", counted_on_each_rank, "decoder.position_ids"),
    row("E089", "the last rank's logits are gathered to column 0: the second half of the vocabulary is 0",
        "turboderp-org/exllamav3#233", "tensor parallel", "decoder/plain encdec/window", gathered_at_first, "logits"),
)  # fmt: skip
