"""One seeded bug of every kind is caught, blamed on the ops that are wrong and no other, and called by its name."""

from __future__ import annotations

import pytest

from detection.mutants import catalogue
from detection.mutants.isolated import run_mutant
from detection.mutants.judged import by_diagnosis

KINDS = {
    "the weight of another layer": "WLD-10",
    "the weight of another norm": "QKN-04",
    "theta in some layers": "ROP-28",
    "QK-norm after RoPE": "QKN-02",
    "positions from the second step on": "POS-04",
    "one decode step late": "own/positions-late",
    "KV heads tiled in decoding": "GQA-10",
    "causality of a chunk": "MSK-04",
    "the window of one query": "MSK-24",
    "padding in the cache": "MSK-18",
    "the memory of the request before": "MRG-12",
    "the cache of the request before": "KVC-02",
    "the cache of another row": "own/cache-rows",
    "the memory of another row": "own/memory-rows",
    "a residual in decoding": "RES-02/steps",
    "gate for up": "MLP-01/weights",
    "the head": "HED-02",
    "the final norm": "FNL-02/head",
}
"""What is wrong, and the mutant that has it wrong."""


@pytest.mark.sample(every=7)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bug_is_caught_blamed_and_named(kind: str) -> None:
    """On the case that shows it best."""
    (mutant,) = (one for one in catalogue() if one.name == KINDS[kind])
    found = run_mutant(mutant, mutant.cases[:1], by_diagnosis)
    assert found.caught, found.failure
    assert found.blamed, found.judged
    assert found.diagnosed, found.judged
