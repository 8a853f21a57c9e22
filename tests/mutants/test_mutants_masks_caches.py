"""Seeded bugs of masks, merged attention, caches and parameters: each diverges, and its ops alone are wrong."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity import check
from qwen3_parity.blame import replay
from qwen3_parity.mutants import Mutant, catalogue
from qwen3_parity.mutants.isolated import golden_of, record_mutant
from qwen3_parity.mutants.judged import short
from qwen3_parity.mutants.not_applicable import REASONS
from qwen3_parity.weights import weights_of

FILES = ("masks", "merged", "caches", "loading")
LISTS: list[tuple[Mutant, ...]] = [import_module(f"qwen3_parity.mutants.{name}").MUTANTS for name in FILES]
MUTANTS = {one.name: one for some in LISTS for one in some}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_diverges_and_its_ops_alone_are_wrong(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    golden, path = golden_of(mutant.cases[0]), tmp_path / "mutant.pb"
    record_mutant(mutant, golden, path)
    candidate = read(path)
    assert check(golden, candidate).exit_code == 1
    found = replay(candidate, weights_of(candidate, GOLDEN_ROOT / "checkpoints"), golden)
    assert {short(one.name) for one in found if not one.passed} == mutant.wrong


def test_no_row_of_the_bug_catalogue_has_both_a_mutant_and_a_reason_for_none() -> None:
    assert {one.name.partition("/")[0] for one in catalogue()} & REASONS.keys() == set()


def test_reasons_for_no_mutant_that_name_a_test_name_one_that_exists() -> None:
    tests = Path(__file__).parents[1]
    named = [word for reason in REASONS.values() for word in reason.replace(":", " ").split() if word.endswith(".py")]
    assert [name for name in named if not (tests / name).is_file()] == []


def test_reasons_for_no_mutant_that_name_another_mutant_name_one_that_exists() -> None:
    names = {one.name for one in catalogue()}
    named = [word.strip(",;.") for reason in REASONS.values() for word in reason.split() if word.startswith("own/")]
    assert [name for name in named if name not in names] == []
