"""One seeded bug of every kind is caught, blamed on the ops that are wrong and no other, and called by its name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from detection.mutants import catalogue
from detection.mutants.isolated import golden_of, run_all
from detection.mutants.judged import by_diagnosis
from detection.mutants.outcome import Outcome

KINDS = {
    "the eps of a norm": "NRM-01",
    "the weight of another layer": "WLD-10",
    "the weight of another norm": "QKN-04",
    "RoPE of neighbouring pairs": "ROP-01",
    "RoPE of two layouts": "ROP-05",
    "theta": "own/theta-near",
    "positions from 1": "ROP-29",
    "positions from the second step on": "POS-04",
    "KV heads tiled": "GQA-01",
    "the scale": "own/scale-near",
    "the scale in one layer alone": "own/scale-one-layer",
    "the softmax": "own/softmax-twos",
    "causality": "MSK-01/future",
    "a window off by one": "MSK-20",
    "padding": "own/mask-padding-ignored",
    "a causal memory": "MRG-05",
    "the memory of the request before": "MRG-12",
    "the cache of the request before": "KVC-02",
    "the cache of another row": "own/cache-rows",
    "the memory of another row": "own/memory-rows",
    "a residual": "RES-02",
    "gate for up": "MLP-01/weights",
    "the activation": "MLP-04",
    "the head": "HED-02",
    "the embedding's scale": "EMB-01",
    "the final norm": "FNL-02",
    "one decode step late": "own/positions-late",
}
"""What is wrong, and the mutant that has it wrong."""


@pytest.fixture(scope="module")
def outcomes() -> Mapping[str, Outcome]:
    """Each on the case that shows it best."""
    named = {one.name: one for one in catalogue()}
    chosen = [named[name] for name in KINDS.values()]
    for mutant in chosen:
        golden_of(mutant.cases[0])  # read once: forks find it in memory
    return {one.name: one for one in run_all(chosen, judge=by_diagnosis, cases=lambda one: one.cases[:1], workers=2)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_bug_is_caught_blamed_and_named(kind: str, outcomes: Mapping[str, Outcome]) -> None:
    found = outcomes[KINDS[kind]]
    assert found.caught, found.failure
    assert found.blamed, found.judged
    assert found.diagnosed, found.judged
