"""RoPE tables of their own in some layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from detection.mutants.mutant import Mutant, attention, words
from detection.mutants.patch import Patch
from qwen3_encdec import rope

Pair = tuple[torch.Tensor, torch.Tensor]

TABLES = words("encoder.cos encoder.sin decoder.cos decoder.sin decoder.encoder_cos decoder.encoder_sin")
INV_FREQ = words("encoder.inv_freq decoder.inv_freq")


def own_tables(
    patch: Patch,
    attentions: Sequence[Any],
    change: Callable[[torch.Tensor, torch.Tensor], Pair],
) -> None:
    """These attentions make their tables themselves, from `change(inv_freq, position_ids)`."""
    recorded: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def keep(plain: Any, table: Any, x: Any, ids: Any) -> Any:
        rotations = plain(table, x, ids)
        recorded.append((rotations[0], table.inv_freq, ids))
        return rotations

    def forward(plain: Any, *args: Any, position_embeddings: Any, **kwargs: Any) -> Any:
        cos = position_embeddings[0]
        source = next((freq, ids) for table, freq, ids in recorded if table is cos)
        return plain(*args, position_embeddings=rope.rotary_tables(*change(*source), cos.dtype), **kwargs)

    patch.wrap(rope.Qwen3RotaryEmbedding, "forward", keep)
    for attn in attentions:
        patch.wrap(attn, "forward", forward)


def two_bases(patch: Patch) -> None:
    local = [attn for attn in patch.attentions() if attn.layer_type == "sliding_attention"]
    own_tables(patch, local, lambda freq, ids: (rope.inverse_frequencies(2 * len(freq), 1e4), ids))


MUTANTS = (
    Mutant("ROP-28", "another base in sliding layers", two_bases, attention("q_rope k_rope"), words("rope.other_theta"),
           ("encdec/window", "encoder/window_odd", "decoder/window_chunks")),
)  # fmt: skip
