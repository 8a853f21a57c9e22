"""Bugs that are known by name, seeded in our implementation: the proof that the judge can fail, and for what.

Nothing here reads the specification or the library of explanations: what hides and what seeks come from two hands.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import chain

from detection.mutants.mutant import Mutant, words
from detection.mutants.readings import ALSO

__all__ = ["FILES", "Mutant", "catalogue"]

NETWORK = (
    *("norms", "rope", "frequencies", "rope_scaling", "positions", "heads", "attention", "feedforward", "ends"),
    *("wiring", "layers", "masks", "merged", "caches", "loading", "sampling", "classic", "gradients"),
)
FILES = (
    *(f"{__name__}.{name}" for name in (*NETWORK, "loaders")),
    "detection.mutants.text.catalogue",
)
"""The catalogue's modules, each with its `MUTANTS`: the network's, those of loaders, then the tokenizer's."""


@cache
def catalogue() -> tuple[Mutant, ...]:
    """Every mutant, file by file, with every right reading of its numbers."""
    written = chain.from_iterable(import_module(name).MUTANTS for name in FILES)
    return tuple(replace(mutant, named=mutant.named | words(ALSO.get(mutant.name, ""))) for mutant in written)
