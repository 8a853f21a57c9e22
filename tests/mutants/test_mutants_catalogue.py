"""The catalogue of seeded bugs is well formed, and every row of bugs has a mutant or a reason for none."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, table
from qwen3_parity.mutants import catalogue
from qwen3_parity.mutants.judged import short
from qwen3_parity.mutants.not_applicable import REASONS

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


def test_no_row_of_the_bug_catalogue_has_both_a_mutant_and_a_reason_for_none():
    assert {one.name.partition("/")[0] for one in catalogue()} & REASONS.keys() == set()


def test_reasons_for_no_mutant_that_name_a_test_name_one_that_exists():
    tests = Path(__file__).parents[1]
    named = [word for reason in REASONS.values() for word in reason.replace(":", " ").split() if word.endswith(".py")]
    assert [name for name in named if not (tests / name).is_file()] == []


def test_reasons_for_no_mutant_that_name_another_mutant_name_one_that_exists():
    names = {one.name for one in catalogue()}
    named = [word.strip(",;.") for reason in REASONS.values() for word in reason.split() if word.startswith("own/")]
    assert [name for name in named if name not in names] == []
