"""Bugs of tokenizers that are known by name, seeded in ours: the same catalogue as the network's, judged by stage."""

from __future__ import annotations

from detection.mutants.mutant import Mutant
from detection.mutants.text import chat, decoding, encoding, files, merging

MUTANTS: tuple[Mutant, ...] = (
    *files.MUTANTS,
    *encoding.MUTANTS,
    *merging.MUTANTS,
    *decoding.MUTANTS,
    *chat.MUTANTS,
)
