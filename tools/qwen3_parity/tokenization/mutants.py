"""Bugs of tokenizers that are known by name, seeded in ours: the same catalogue as the network's, judged by stage."""

from __future__ import annotations

from qwen3_parity.mutants.mutant import Mutant
from qwen3_parity.tokenization import (
    mutants_batch,
    mutants_chat,
    mutants_classes,
    mutants_decoding,
    mutants_ids,
    mutants_merges,
    mutants_normalized,
    mutants_pre_tokens,
    mutants_segments,
    mutants_stream,
    mutants_symbols,
)

MUTANTS: tuple[Mutant, ...] = (
    *mutants_segments.MUTANTS,
    *mutants_normalized.MUTANTS,
    *mutants_pre_tokens.MUTANTS,
    *mutants_classes.MUTANTS,
    *mutants_symbols.MUTANTS,
    *mutants_merges.MUTANTS,
    *mutants_ids.MUTANTS,
    *mutants_decoding.MUTANTS,
    *mutants_stream.MUTANTS,
    *mutants_batch.MUTANTS,
    *mutants_chat.MUTANTS,
)
"""Stage by stage."""
