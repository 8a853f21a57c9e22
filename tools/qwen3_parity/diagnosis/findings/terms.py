"""A tap that is a sum, as its terms: what each would be multiplied with, were it wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qwen3_golden import Array

LARGEST = 1 << 24
"""Numbers of all terms from which on a sum is not taken to pieces."""


@dataclass(frozen=True)
class Terms:
    """The terms of a sum, `parts[term, …]` with the tap's axes, float64; their sum is what the tap should be.

    `names` has each in words. `factors` are wrong ones, `[term]`, by what is said of them; `groups` words that are
    equal where terms belong together, `[term]` ("batch row 1"), by what they are ("batch row"). `of_truth` are the factors of a sum
    that is right, `[term]`, 1 each where None.
    """

    parts: Array
    names: Sequence[str]
    factors: Mapping[str, Array] = field(default_factory=dict)
    groups: Mapping[str, Array] = field(default_factory=dict)
    of_truth: Array | None = None
