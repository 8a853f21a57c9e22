"""A ratio makes a benchmark fail only where it is off by twice what was hoped for."""

from __future__ import annotations

import pytest
from ratios import broken


@pytest.mark.parametrize(("figure", "fails"), [(1.0, False), (0.51, False), (0.49, True)])
def test_half_of_what_was_hoped_for_is_broken(figure: float, fails: bool) -> None:
    assert bool(broken({"speed": figure}, {"speed": 1.0}, {})) is fails


@pytest.mark.parametrize(("figure", "fails"), [(1.3, False), (2.5, False), (2.7, True)])
def test_a_cost_twice_as_high_as_hoped_for_is_broken(figure: float, fails: bool) -> None:
    assert bool(broken({"cost": figure, "other": 9.0}, {}, {"cost": 1.3})) is fails
