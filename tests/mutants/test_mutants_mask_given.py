"""A model that does not take the mask it is given is caught, blamed on its masks alone, and named."""

from __future__ import annotations

import pytest

from detection.mutants import catalogue
from detection.mutants.isolated import run_case
from detection.mutants.judged import by_diagnosis


@pytest.mark.parametrize("name", ["MSK-29", "MSK-29/ahead"])
def test_a_mask_that_is_not_taken_as_given_is_caught_blamed_and_named(name: str) -> None:
    mutant = next(one for one in catalogue() if one.name == name)
    result = run_case(mutant, "decoder/mask_4d", by_diagnosis)
    assert result.caught and not result.failure
    assert result.blamed and not result.innocents
    assert set(result.diagnoses.values()) <= mutant.named
