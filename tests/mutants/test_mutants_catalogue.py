"""The catalogue of seeded bugs: well formed, and each bug really changes what its case computes."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module

import pytest

from qwen3_golden import GOLDEN_ROOT, ParityError, read, table
from qwen3_parity import check
from qwen3_parity.mutants import catalogue
from qwen3_parity.mutants.isolated import golden_of, record_mutant
from qwen3_parity.mutants.judged import short

SEEDED = ("norms", "rope", "frequencies", "positions", "heads", "attention", "feedforward", "ends", "wiring", "layers")
MUTANTS = {one.name: one for name in SEEDED for one in import_module(f"qwen3_parity.mutants.{name}").MUTANTS}
ID = re.compile(r"(([A-Z]{3}|T5B)-\d\d(/[a-z0-9_]+)?|own/[a-z0-9-]+)")
NAMED = re.compile(r"[a-z]+\.[a-z0-9_]+")


def test_names_are_unique():
    assert [name for name, count in Counter(one.name for one in catalogue()).items() if count > 1] == []


def test_names_are_ids_of_the_bug_catalogue_or_own_ones():
    assert [one.name for one in catalogue() if not ID.fullmatch(one.name)] == []


def test_wrong_taps_are_places_of_the_network():
    places = {short(row.pattern) for row in table()}
    assert {one.name: one.wrong - places for one in catalogue() if one.wrong - places} == {}


def test_diagnoses_are_written_as_ids():
    assert [name for one in catalogue() for name in one.named if not NAMED.fullmatch(name)] == []


def test_every_mutant_has_committed_cases():
    cases = {case for one in catalogue() for case in one.cases}
    assert [case for case in cases if not (GOLDEN_ROOT / "cases" / f"{case}.pb").is_file()] == []
    assert [one.name for one in catalogue() if not one.cases] == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_changes_the_numbers_of_its_first_case(name, tmp_path):
    mutant, golden = MUTANTS[name], golden_of(MUTANTS[name].cases[0])
    path = tmp_path / "mutant.pb"
    if not mutant.named:
        with pytest.raises(ParityError) as refused:
            record_mutant(mutant, golden, path)
        assert refused.value.fault == "candidate"
        return
    record_mutant(mutant, golden, path)
    assert check(golden, read(path)).exit_code == 1
