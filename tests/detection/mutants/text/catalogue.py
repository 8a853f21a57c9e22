"""Bugs of tokenizers that are known by name, seeded in ours: the same catalogue as the network's, judged by stage."""

from __future__ import annotations

from detection.mutants.mutant import Mutant
from detection.mutants.text import (
    batch,
    chat,
    classes,
    decoding,
    ids,
    merges,
    normalized,
    pre_tokens,
    segments,
    stream,
    symbols,
)

MUTANTS: tuple[Mutant, ...] = (
    *segments.MUTANTS,
    *normalized.MUTANTS,
    *pre_tokens.MUTANTS,
    *classes.MUTANTS,
    *symbols.MUTANTS,
    *merges.MUTANTS,
    *ids.MUTANTS,
    *decoding.MUTANTS,
    *stream.MUTANTS,
    *batch.MUTANTS,
    *chat.MUTANTS,
)
"""Stage by stage."""
