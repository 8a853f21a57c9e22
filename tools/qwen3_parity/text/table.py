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

_MODULES = (
    *(segments, normalized, pre_tokens, symbols, merges, ids, offsets),
    *(pieces, decoded, chunks, batch, rendered, rendered_ids),
)
TABLE: Mapping[str, Stage] = {module.__name__.rpartition(".")[2]: module.STAGE for module in _MODULES}

SHOW_PRE_TOKENS = frozenset({"pre_tokens", "symbols", "merges"})
"""Stages that show pre-tokens one by one: who has none of them need not say the ids of each."""
