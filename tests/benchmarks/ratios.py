"""What a benchmark says: its figures, each ratio beside the one that was hoped for.

How fast anything is belongs to the machine, so that no figure makes a benchmark fail but one that is off by twice:
then something is broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

BROKEN = 2.0
"""A ratio this many times worse than hoped for is a failure."""

Hopes = Mapping[str, float]


def broken(figures: Mapping[str, float], at_least: Hopes, at_most: Hopes) -> dict[str, float]:
    """The figures that are off by twice."""
    low = {name for name, hope in at_least.items() if figures[name] * BROKEN < hope}
    high = {name for name, hope in at_most.items() if figures[name] > hope * BROKEN}
    return {name: figures[name] for name in figures if name in low | high}


def report(
    benchmark: Any,
    capsys: pytest.CaptureFixture[str],
    title: str,
    figures: Mapping[str, float],
    *,
    at_least: Hopes | None = None,
    at_most: Hopes | None = None,
) -> None:
    """Print the figures and what was hoped for, keep them with pytest-benchmark's; a failure where one is broken."""
    low, high = at_least or {}, at_most or {}
    hopes = {name: f" (hoped for ≥ {hope:g})" for name, hope in low.items()}
    hopes |= {name: f" (hoped for ≤ {hope:g})" for name, hope in high.items()}
    benchmark.extra_info.update(figures)
    with capsys.disabled():
        print(f"\n{title}: " + ", ".join(f"{name} {value:.3g}{hopes.get(name, '')}" for name, value in figures.items()))
    assert not broken(figures, low, high)
