"""A mistake that reproduces wrong taps or texts: how many of them, how closely, and which of two comes first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from qwen3_parity.mistakes.ranks import PLAIN, Kind, Rank

LAYER = re.compile(r"(?<=\.)(\d+)(?=\.|\[|#|$)")
"""The number of a layer in a tap's name."""


@dataclass(frozen=True)
class Explanation:
    """A mistake that reproduces wrong taps, or texts. `place` is where it is, `share` the worst share of the budget it
    leaves: none in a text.

    `whole` taps are reproduced in every cell, `partly` in every wrong cell (the mistake is made for some of the tap);
    `of` were tried: every wrong tap of the place, or those that the mistakes before it leave; `taps` are the name and
    step of those that it reproduces. `kinds` of places are wrong together. `contradicted` counts those of the `passing`
    ones of the same place, as many as were tried, that the mistake would have made wrong, `elsewhere` those of them in
    a layer or step without a wrong one, where it is not made; `contradicting` are all of them. `spoiled` is the part of
    the right cells of a tap explained partly, those of one part of it where it is made in that `part` alone.
    """

    name: str
    says: str
    fix: str
    place: str
    share: float
    whole: int
    partly: int
    of: int
    contradicted: int
    passing: int = 0
    spoiled: float = 0.0
    rank: Rank = PLAIN
    kinds: int = 1
    taps: tuple[tuple[str, int], ...] = ()
    elsewhere: int = 0
    contradicting: tuple[tuple[str, int], ...] = ()
    part: str = ""

    @property
    def doubted(self) -> int:
        """How many right taps contradict it, where it is made."""
        return self.contradicted - self.elsewhere

    @property
    def fitted(self) -> bool:
        """Whether it was fitted to each tap by itself, so that nothing can contradict it."""
        return self.rank.kind >= Kind.FITTED

    @property
    def certain(self) -> bool:
        """Whether it was not fitted to each tap by itself, and would make no right cell wrong."""
        return not self.fitted and not round(self.spoiled, 1)

    @property
    def reproduced(self) -> int:
        """How many taps it reproduces, wholly or in their wrong cells."""
        return self.whole + self.partly

    @property
    def order(self) -> tuple[bool, int, int, int, float, Rank, int, float]:
        """Smaller is better: is no fit of each tap, explains more, contradicts less, is plainer, is closer.

        Shares that differ by rounding alone are equal: the library's order, the plainer first, stays.
        """
        spoiled, share = round(self.spoiled, 1), float(f"{self.share:.3g}")
        return self.fitted, -self.whole, -self.partly, self.contradicted, spoiled, self.rank, self.kinds, share

    def as_good_as(self, other: Explanation) -> bool:
        """Whether it explains as much as another one and contradicts no more: the plainer of the two is no surer."""
        return self.order[:4] == other.order[:4]


def where_made(explanations: Sequence[Explanation], wrong: Sequence[tuple[str, int]]) -> list[Explanation]:
    """The explanations with what contradicts them in layers and steps that have none of the `wrong` taps."""
    layers, steps = {_layers(name) for name, _ in wrong}, {step for _, step in wrong}
    return [
        replace(
            each,
            elsewhere=sum(_layers(name) not in layers or step not in steps for name, step in each.contradicting),
        )
        for each in explanations
    ]


def _layers(name: str) -> tuple[str, ...]:
    return tuple(LAYER.findall(name))
