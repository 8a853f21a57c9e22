"""What a hypothesis is: a named wrong way to compute an op, which reproduces a candidate's numbers or does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from qwen3_parity.mistakes.ranks import PLAIN, Rank
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

Compute = Callable[[Site], Result | None]
"""The wrong op on a site's inputs; None where it cannot be computed (another shape, an input that is not there)."""


@dataclass(frozen=True)
class Hypothesis:
    """One mistake. `name` is stable ("rope.interleaved"); mistakes with equal mathematics have one name.

    `says` completes "this op …" in a few words; `fix` is what to do, in one line. `rank` orders hypotheses that explain
    equally much: 0 for the plain mistake, more for what is rarer or has parameters that could fit by chance.
    `cause`: what it has in common with mistakes of other ops, where one careless function makes them together (a wrong
    repeat of heads: in the scores and in the context).
    `everywhere`: the mistake is made at every place of a group where it can be (keys and values alike), not at one.
    `leaves`: it is made together at all places whose names end so (a block that norms elsewhere).
    """

    name: str
    says: str
    fix: str
    compute: Compute
    rank: Rank = PLAIN
    everywhere: bool = False
    leaves: frozenset[str] = frozenset()
    cause: str = ""


Library = Callable[[Site], Iterable[Hypothesis]]
"""Hypotheses about the op of a site; what they yield must be computable at every site of the same place."""


@dataclass(frozen=True)
class Mistakes:
    """How one op goes wrong: `known` ways, tried in this order; `fitted` ones only where none of those explains it."""

    known: tuple[Library, ...]
    fitted: tuple[Library, ...] = ()


@dataclass(frozen=True)
class OfSite:
    """The right op on a changed site: another input, parameter or number. None from `change`: not computable."""

    change: Callable[[Site], Site | None]

    def __call__(self, site: Site) -> Result | None:
        """What the op gives there."""
        changed = self.change(site)
        return None if changed is None else OPS[changed.place.op].truth(changed)

    def then(self, other: Compute) -> Compute:
        """Another mistake, made on the changed site."""

        def compute(site: Site) -> Result | None:
            changed = self.change(site)
            return None if changed is None else other(changed)

        return compute


def both(first: Compute, second: Compute) -> Compute | None:
    """Two mistakes in one op at once; None where neither is a changed site, which the other one could be made on."""
    if not isinstance(first, OfSite):
        first, second = second, first
    return first.then(second) if isinstance(first, OfSite) else None


def with_config(**numbers: Any) -> Compute:
    """The right op with other numbers of the configuration (rms_norm_eps, rope_theta, sliding_window, …)."""
    return OfSite(lambda site: replace(site, config=replace(site.config, **numbers)))
