"""Seeded bugs in recordings with some of the taps: the group that is blamed holds the wrong op, and no other is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from detection.mutants import Mutant, catalogue, isolated
from detection.mutants.judged import by_replay
from detection.mutants.outcome import Outcome
from qwen3_parity.recording.record import record
from qwen3_parity.recording.tap_sets import TAP_SETS

FEW = ("MLP-01/steps", "GQA-10", "ROP-28")
Runs = Callable[[Sequence[Mutant], str, int], list[Outcome]]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Mutants on their first case, recorded with the taps of a granularity, blamed by replay."""

    def run(mutants: Sequence[Mutant], granularity: str, workers: int) -> list[Outcome]:
        monkeypatch.setattr(isolated, "record", partial(record, taps=TAP_SETS[granularity]))
        first = isolated.run_all(mutants, judge=by_replay, cases=lambda one: one.cases[:1], workers=workers)
        return list(first)

    return run


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("granularity", ["sub-layer", "layer", "logits"])
@pytest.mark.parametrize("name", FEW)
def test_a_wrong_op_without_a_tap_is_blamed_in_its_group(name: str, granularity: str, runs: Runs) -> None:
    mutant = next(one for one in catalogue() if one.name == name)
    (found,) = runs([mutant], granularity, 1)
    assert found.judged is not None, found.failure
    assert found.judged.exactly_blamed, found.judged
    assert mutant.wrong.isdisjoint(found.judged.blamed)  # the group's tap is another one


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["fused", "modules", "sub-layer", "layer", "logits"])
def test_the_groups_that_are_blamed_hold_the_wrong_ops_of_forty_bugs(granularity: str, runs: Runs) -> None:
    network = [one for one in catalogue() if not (one.of_tokenizer or one.of_weights)]
    mutants = network[:: len(network) // 40][:40]
    found = runs(mutants, granularity, os.cpu_count() or 1)
    others = [f"{one.name} on {one.cases}: {one.failure}" for one in found if not one.blamed]
    print(f"\n{granularity}: {len(found) - len(others)} of {len(found)} are blamed in groups that hold them")
    print("\n".join(others))
    assert len(found) == 40 and not others
