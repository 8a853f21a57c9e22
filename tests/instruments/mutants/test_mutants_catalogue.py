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
    return [mutant for mutant in catalogue() if mutant.of_tokenizer]


def networks():
    return [mutant for mutant in catalogue() if not (mutant.of_tokenizer or mutant.of_weights)]


def test_names_are_unique():
    assert [name for name, count in Counter(mutant.name for mutant in catalogue()).items() if count > 1] == []


def test_names_are_ids_of_the_bug_catalogue_or_own_ones():
    assert [mutant.name for mutant in catalogue() if not ID.fullmatch(mutant.name)] == []


def test_wrong_taps_are_places_of_the_network_or_stages_of_a_tokenizer():
    places = {short(row.pattern) for row in table()}
    assert {mutant.name: mutant.wrong - places for mutant in networks() if mutant.wrong - places} == {}
    assert {mutant.name for mutant in catalogue() if mutant.wrong & set(STAGES)} == {
        mutant.name for mutant in tokenizers()
    }


def test_bugs_of_tokenizers_are_looked_for_in_tokenizations_and_others_are_not():
    of = {mutant.name: {case.startswith("tokenization/") for case in mutant.cases} for mutant in catalogue()}
    assert [mutant.name for mutant in catalogue() if of[mutant.name] != {mutant.of_tokenizer}] == []


def test_every_bug_that_a_tokenization_exposes_is_seeded_or_has_a_reason_for_none():
    paths = sorted((GOLDEN_ROOT / "cases" / "tokenization").glob("*.pb"))
    exposed = {bug for path in paths for bug in read(path).case.exposes}
    assert exposed and exposed - {mutant.name.partition("/")[0] for mutant in tokenizers()} - REASONS.keys() == set()


def test_diagnoses_are_written_as_ids():
    assert [name for mutant in (*networks(), *tokenizers()) for name in mutant.named if not NAMED.fullmatch(name)] == []


def test_every_mutant_has_committed_cases():
    cases = {case for mutant in (*networks(), *tokenizers()) for case in mutant.cases}
    assert [case for case in cases if not (GOLDEN_ROOT / "cases" / f"{case}.pb").is_file()] == []
    assert [mutant.name for mutant in catalogue() if not mutant.cases] == []


def test_no_row_of_the_bug_catalogue_has_both_a_mutant_and_a_reason_for_none():
    assert {mutant.name.partition("/")[0] for mutant in catalogue()} & REASONS.keys() == set()


def test_reasons_for_no_mutant_that_name_a_test_name_one_that_exists():
    tests = Path(__file__).parents[2]
    named = [word for reason in REASONS.values() for word in reason.replace(":", " ").split() if word.endswith(".py")]
    assert [name for name in named if not (tests / name).is_file()] == []


def test_reasons_for_no_mutant_that_name_another_mutant_name_one_that_exists():
    names = {mutant.name for mutant in catalogue()}
    named = [word.strip(",;.") for reason in REASONS.values() for word in reason.split() if word.startswith("own/")]
    assert [name for name in named if name not in names] == []
