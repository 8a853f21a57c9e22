"""The frozen list: of every seeded bug, whether it needs the real model or only restates an op's formula."""

from __future__ import annotations

from collections import defaultdict

import pytest

from detection.mutants import catalogue
from detection.mutants.judged import short
from detection.mutants.kept import REPLACED, STAYS, kept
from qwen3_golden import table
from qwen3_spec.ops import OPS


@pytest.fixture(scope="module")
def replaced():
    """The ops that each bug restates, by its name."""
    return {name: set(one.why.split()) for name, one in kept().items() if one.kind == REPLACED}


def test_every_mutant_is_classified_once_and_nothing_else_is():
    assert sorted(kept()) == sorted(one.name for one in catalogue())


def test_bugs_of_tokenizers_and_of_checkpoints_stay():
    of_files = [one.name for one in catalogue() if one.of_tokenizer or one.of_weights]
    assert of_files and [name for name in of_files if kept()[name].kind != STAYS] == []


def test_bugs_that_restate_name_ops(replaced):
    assert {op for ops in replaced.values() for op in ops} <= set(OPS)


def test_bugs_that_restate_are_wrong_at_taps_of_these_ops_alone(replaced):
    ops = defaultdict(set)
    for tap in table():
        ops[short(tap.pattern)].add(tap.op)
    elsewhere = [
        f"{one.name}: {place}"
        for one in catalogue()
        for place in one.wrong
        if one.name in replaced and not ops[place] & replaced[one.name]
    ]
    assert replaced and elsewhere == []


def test_bugs_of_caches_stay(replaced):
    caches = [one.name for one in catalogue() if any(".cache_" in place for place in one.wrong)]
    assert caches and [name for name in caches if name in replaced] == []
