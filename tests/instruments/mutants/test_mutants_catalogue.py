"""The catalogue of seeded bugs is well formed, and every row of bugs has a mutant or a reason for none."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from detection.mutants import catalogue
from detection.mutants.judged import short
from detection.mutants.not_applicable import REASONS
from qwen3_golden import GOLDEN_ROOT, STAGES, read, table

ID = re.compile(r"(([A-Z]{3}|T5B)-\d\d(/[a-z0-9_]+)?|own/[a-z0-9-]+)")
NAMED = re.compile(r"[a-z_]+\.[a-z0-9_]+")


def tokenizers():
    return [one for one in catalogue() if one.of_tokenizer]


def networks():
    return [one for one in catalogue() if not (one.of_tokenizer or one.of_weights)]


def test_names_are_unique():
    assert [name for name, count in Counter(one.name for one in catalogue()).items() if count > 1] == []


def test_names_are_ids_of_the_bug_catalogue_or_own_ones():
    assert [one.name for one in catalogue() if not ID.fullmatch(one.name)] == []


def test_wrong_taps_are_places_of_the_network_or_stages_of_a_tokenizer():
    places = {short(row.pattern) for row in table()}
    assert {one.name: one.wrong - places for one in networks() if one.wrong - places} == {}
    assert {one.name for one in catalogue() if one.wrong & set(STAGES)} == {one.name for one in tokenizers()}


def test_bugs_of_tokenizers_are_looked_for_in_tokenizations_and_others_are_not():
    of = {one.name: {case.startswith("tokenization/") for case in one.cases} for one in catalogue()}
    assert [one.name for one in catalogue() if of[one.name] != {one.of_tokenizer}] == []


def test_every_bug_that_a_tokenization_exposes_is_seeded_or_has_a_reason_for_none():
    paths = sorted((GOLDEN_ROOT / "cases" / "tokenization").glob("*.pb"))
    exposed = {bug for path in paths for bug in read(path).case.exposes}
    assert exposed and exposed - {one.name.partition("/")[0] for one in tokenizers()} - REASONS.keys() == set()


def test_diagnoses_are_written_as_ids():
    assert [name for one in (*networks(), *tokenizers()) for name in one.named if not NAMED.fullmatch(name)] == []


def test_every_mutant_has_committed_cases():
    cases = {case for one in (*networks(), *tokenizers()) for case in one.cases}
    assert [case for case in cases if not (GOLDEN_ROOT / "cases" / f"{case}.pb").is_file()] == []
    assert [one.name for one in catalogue() if not one.cases] == []


def test_no_row_of_the_bug_catalogue_has_both_a_mutant_and_a_reason_for_none():
    assert {one.name.partition("/")[0] for one in catalogue()} & REASONS.keys() == set()


def test_reasons_for_no_mutant_that_name_a_test_name_one_that_exists():
    tests = Path(__file__).parents[2]
    named = [word for reason in REASONS.values() for word in reason.replace(":", " ").split() if word.endswith(".py")]
    assert [name for name in named if not (tests / name).is_file()] == []


def test_reasons_for_no_mutant_that_name_another_mutant_name_one_that_exists():
    names = {one.name for one in catalogue()}
    named = [word.strip(",;.") for reason in REASONS.values() for word in reason.split() if word.startswith("own/")]
    assert [name for name in named if name not in names] == []
