"""Every wrong way that is thought of, by its stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from qwen3_parity.text.hypotheses import (
    added_ids,
    batch,
    chunks,
    composition,
    conversations,
    decoded,
    ids,
    merges,
    normalized,
    offsets,
    patterns,
    pieces,
    pre_tokens,
    rendered,
    segments,
    symbols,
    thoughts,
)
from qwen3_parity.text.hypotheses.wrong import Wrong
from qwen3_parity.text.stages_of import TRUTH


@cache
def library() -> Mapping[str, Sequence[Wrong]]:
    """Every wrong way by its stage, the likeliest first."""
    found: dict[str, list[Wrong]] = {stage: [] for stage in TRUTH}
    for module in (
        *(segments, added_ids, composition, normalized, patterns, pre_tokens, symbols, merges, ids, offsets),
        *(pieces, decoded, chunks, batch, conversations, thoughts, rendered),
    ):
        for wrong in module.WRONG:
            found[wrong.stage].append(wrong)
    return found
