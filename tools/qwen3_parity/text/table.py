"""Every stage by its name, in order."""

from __future__ import annotations

from collections.abc import Mapping

from qwen3_parity.text.stage import Stage
from qwen3_parity.text.stages import (
    batch,
    chunks,
    decoded,
    ids,
    merges,
    normalized,
    offsets,
    pieces,
    pre_tokens,
    rendered,
    rendered_ids,
    segments,
    symbols,
)

TABLE: Mapping[str, Stage] = {
    "segments": segments.STAGE,
    "normalized": normalized.STAGE,
    "pre_tokens": pre_tokens.STAGE,
    "symbols": symbols.STAGE,
    "merges": merges.STAGE,
    "ids": ids.STAGE,
    "offsets": offsets.STAGE,
    "pieces": pieces.STAGE,
    "decoded": decoded.STAGE,
    "chunks": chunks.STAGE,
    "batch": batch.STAGE,
    "rendered": rendered.STAGE,
    "rendered_ids": rendered_ids.STAGE,
}

SHOW_PRE_TOKENS = frozenset({"pre_tokens", "symbols", "merges"})
"""Stages that show pre-tokens one by one: who has none of them need not say the ids of each."""
