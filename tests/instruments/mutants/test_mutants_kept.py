"""The frozen list: the seeded bugs that need the real model, checkpoint or tokenizer, each with why."""

from __future__ import annotations

from detection.mutants import catalogue
from detection.mutants.kept import kept


def test_every_mutant_is_on_the_frozen_list_and_nothing_else_is() -> None:
    assert sorted(kept()) == sorted(one.name for one in catalogue())
