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
    "norms exchanged": "own/classic-norms-exchanged",
    "the norm before, not behind": "own/classic-post-for-pre",
    "a sum that is not normed": "own/classic-sum-unnormed",
    "positions that are counted": "own/classic-positions-counted",
    "the tied head's gradient": "own/gradient-tied-head",
    "the gradient of padding": "own/gradient-padding",
    "no gradient for the encoder": "own/gradient-encoder-cut",
    "the gradient of the memory's values": "own/gradient-memory-values",
    "a gradient that is scaled": "own/gradient-scaled",
    "a choice of tokens": "SMP-06",
    "a filter": "SMP-08",
    "a penalty": "SMP-10",
    "the last filter": "own/filters-top-p-last",
}
"""What is wrong, and the mutant that has it wrong."""


@pytest.mark.sample(every=9)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bug_is_caught_blamed_and_named(kind: str) -> None:
    """On the case that shows it best; of training, on the smallest."""
    (mutant,) = (entry for entry in catalogue() if entry.name == KINDS[kind])
    cases = mutant.cases[-1:] if "gradient" in mutant.name else mutant.cases[:1]
    outcome = run_mutant(mutant, cases, by_diagnosis, timeout=300)
    assert outcome.caught and min(outcome.shares) >= 2, outcome.failure
    assert outcome.blamed and outcome.diagnosed, outcome.judged


@pytest.mark.parametrize(("kind", "cases"), [("classic", "classic/"), ("gradient", "training/")])
def test_eight_bugs_of_each_other_network_stand_on_its_own_cases(kind: str, cases: str) -> None:
    those = [mutant for mutant in catalogue() if mutant.name.startswith(f"own/{kind}-")]
    assert len(those) == 8 and all(case.startswith(cases) for mutant in those for case in mutant.cases)
