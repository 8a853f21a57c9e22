"""What may be wrong with a tap: every known mistake, made at one place of its group or at all that it is made at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.library import LIBRARY
from qwen3_parity.mistakes.observed import every_guess
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_GRADIENT = "gradient."
_TOGETHER: tuple[frozenset[str], ...] = tuple(
    frozenset(leaves.split())
    for leaves in (
        "q_rope k_rope",
        "q_norm k_norm",
        "q_proj k_proj",
        "q_proj k_proj q_norm k_norm",
        "k_proj v_proj",
        "q_proj k_proj v_proj",
        "q_proj k_proj v_proj o_proj",
        "q_proj k_proj v_proj o_proj q_norm k_norm",
        "gate_proj up_proj",
        "gate_proj up_proj down_proj",
        "input_layernorm post_attention_layernorm",
        "scores context",
        "cache_keys cache_values",
        "cache_encoder_keys cache_encoder_values",
        "encoder_k_proj encoder_v_proj",
        "cos sin",
    )
)
"""Places, by the last part of their names, that one careless line gets wrong together."""


@dataclass(frozen=True)
class Suspect:
    """A mistake with the places, by pattern, at which it is made; `at` has it as each of them thinks of it."""

    hypothesis: Hypothesis
    at: Mapping[str, Hypothesis]

    @property
    def where(self) -> str:
        """Its places in words."""
        return ", ".join(self.at)

    def overrides(self) -> Mapping[str, Callable[[Site], Result]]:
        """The mistake where it can be made, the right op elsewhere."""
        return {pattern: _or_truth(one) for pattern, one in self.at.items()}


def _or_truth(hypothesis: Hypothesis) -> Callable[[Site], Result]:
    return lambda site: hypothesis.compute(site) or OPS[site.place.op].truth(site)


def suspects(evidence: Evidence, failures: list[str]) -> Iterator[Suspect]:
    """The mistakes that may explain a tap; of a group the plainest first, everywhere before at one place.

    A library that fails is our own fault: it is told in `failures`.
    """
    own = evidence.site.place.pattern
    if not evidence.others:
        for one in _library(evidence.site, failures):
            yield Suspect(one, {own: one})
        return
    members = dict(_members(evidence))
    made: dict[str, dict[str, Hypothesis]] = {}
    for pattern, site in members.items():
        with every_guess():  # what is observed goes through the whole group: no quick look may put a guess aside
            known = list(_library(site, failures))
        for one in known:
            everywhere = members if one.everywhere else [pattern]
            made.setdefault(one.cause or f"{one.name} {one.says}", {}).update(dict.fromkeys(everywhere, one))
    for at in sorted(made.values(), key=lambda some: min(one.rank for one in some.values())):
        for patterns in _sets(list(at), next(iter(at.values())).everywhere):
            chosen = {pattern: at[pattern] for pattern in patterns}
            yield Suspect(chosen[patterns[0]], chosen)


def _sets(patterns: Sequence[str], everywhere: bool) -> Iterable[tuple[str, ...]]:
    """The places at which a mistake that can be made at some `patterns` is made: all, those of one line, one.

    Encoder keys are made by the lines that make keys, or by lines of their own.
    """
    sets = [tuple(patterns)]
    if not everywhere and len(patterns) > 1:
        own = {pattern: pattern.rpartition(".")[2] for pattern in patterns}
        leaves = {pattern: leaf.removeprefix("encoder_") for pattern, leaf in own.items()}
        groups = [*_TOGETHER, *(frozenset({leaf}) for leaf in leaves.values())]
        sets += [tuple(p for p in patterns if {own[p], leaves[p]} & group) for group in groups]
        sets += combinations(patterns, 1)
    return [patterns for patterns in dict.fromkeys(sets) if patterns]


def _library(site: Site, failures: list[str]) -> Iterator[Hypothesis]:
    for library in LIBRARY.get(site.place.op, ()):
        try:
            with np.errstate(all="ignore"):
                yield from library(site)
        except (ArithmeticError, AttributeError, IndexError, KeyError, NameError, TypeError, ValueError) as error:
            failures.append(f"harness bug: hypotheses about {site.place.name}: {type(error).__name__}: {error}")


def _members(evidence: Evidence) -> Iterator[tuple[str, Site]]:
    """The places in which the mistake may be, with their sites: the tap's own first, then those of its group.

    What a wrong gradient goes back through is right forward, or the gradient would not be judged.
    """
    yield evidence.site.place.pattern, evidence.site
    back = evidence.site.place.name.startswith(_GRADIENT)
    for name in evidence.others:
        if back and not name.startswith(_GRADIENT):
            continue
        values = evidence.site.values
        spot = values.place(name)
        site = values.site(name, evidence.site.step)
        if spot is not None and site is not None:
            yield spot.pattern, site
