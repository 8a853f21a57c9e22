"""Counted work: what bounds a search alike on every machine, loaded or not, where a clock would not."""

from __future__ import annotations

from dataclasses import dataclass

from qwen3_golden import Array
from qwen3_spec.site import Site

CALL = 20_000
"""What evaluating one op costs beside its numbers, in elements: most of it on tiny networks."""
_PRODUCTS = 16
"""Products of a matrix that take as long as one element of an op that has none."""


@dataclass
class Work:
    """Elements that were evaluated since the work began, each about three nanoseconds of a quiet core."""

    done: int = 0

    def call(self) -> None:
        """Count something that was tried and gave no numbers, or few."""
        self.done += CALL

    def evaluated(self, site: Site, y: Array) -> None:
        """Count an op that was evaluated on a site's inputs, with what it gave."""
        rows = y.size // max(1, y.shape[-1]) if y.ndim else 1
        parameters = sum(parameter.size for parameter in site.parameters.values())
        self.done += CALL + y.size + sum(value.size for value in site.inputs) + rows * parameters // _PRODUCTS
