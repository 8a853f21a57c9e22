"""What may be wrong with a tap: every known mistake, made at one place of its group or at all that it is made at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.moments import Moment
from qwen3_parity.mistakes.as_loaded import AS_LOADED
from qwen3_parity.mistakes.by_op import LIBRARY
from qwen3_parity.mistakes.hypothesis import Compute, Hypothesis
from qwen3_parity.mistakes.observed import every_guess
from qwen3_parity.mistakes.ranks import Rank
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
        "cache_keys cache_encoder_keys",
        "cache_values cache_encoder_values",
        "encoder_k_proj encoder_v_proj",
        "cos sin",
    )
)
"""Places, by the last part of their names, that one careless line gets wrong together."""


@dataclass(frozen=True)
class Suspect:
    """A mistake with the places, by pattern, at which it is made; `at` has it as each of them thinks of it.

    `partial`: 0 where these are all its places, 1 where one careless line makes it at some, 2 at one of several.
    `moment`: the steps in which alone it is made.
    """

    hypothesis: Hypothesis
    at: Mapping[str, Hypothesis]
    partial: int = 0
    moment: Moment | None = None

    @property
    def plainness(self) -> tuple[Rank, int]:
        """Smaller is plainer: what is tried before."""
        return self.hypothesis.rank, self.partial

    @property
    def where(self) -> str:
        """Its places in words."""
        return ", ".join(self.at)

    def overrides(self) -> Mapping[str, Callable[[Site], Result]]:
        """The mistake where it can be made, the right op elsewhere."""
        return {pattern: _Override(hypothesis.compute, self.moment) for pattern, hypothesis in self.at.items()}


@dataclass(frozen=True)
class _Override:
    """A mistake where it can be made, the right op elsewhere."""

    compute: Compute
    moment: Moment | None

    def __call__(self, site: Site) -> Result:
        result = self.compute(site) if self.moment is None or site.step in self.moment.steps else None
        return result or OPS[site.place.op].truth(site)


def own_suspects(evidence: Evidence, failures: list[str]) -> Iterator[Suspect]:
    """The mistakes that may explain a tap whose inputs were recorded, in the library's order.

    A library that fails is our own fault: it is told in `failures`.
    """
    pattern = evidence.site.place.pattern
    for hypothesis in library_of(evidence.site, failures):
        yield Suspect(hypothesis, {pattern: hypothesis})


def plainest_first(every: Sequence[Suspect], pattern: str, moments: Sequence[Moment] = ()) -> list[Suspect]:
    """The mistakes that can be made in a group: the plainest first, everywhere before at one place.

    Before all of them what was loaded otherwise, which is no guess.
    Each plain one is also thought of as made in each of the `moments` alone: what the steps before wrote is right then.
    """
    again = [_made_in(moment, suspect) for moment in moments for suspect in every if suspect.hypothesis.rank.plain]

    # What is made at the tap itself, whose `pattern` this is, takes no replay: it comes first.
    def order(suspect: Suspect) -> tuple[bool, bool, tuple[Rank, int]]:
        is_guess = suspect.hypothesis.name != AS_LOADED or suspect.moment is not None
        return is_guess, tuple(suspect.at) != (pattern,), suspect.plainness

    return sorted([*every, *again], key=order)


def _made_in(moment: Moment, suspect: Suspect) -> Suspect:
    hypothesis = suspect.hypothesis
    hypothesis = replace(hypothesis, says=f"{hypothesis.says}, {moment.says}", rank=hypothesis.rank + 1)
    return replace(suspect, hypothesis=hypothesis, moment=moment)


def every_suspect(evidence: Evidence, failures: list[str]) -> Iterator[Suspect]:
    """The mistakes that can be made in a tap or its group, whether they alone can explain it or not.

    A library that fails is our own fault: it is told in `failures`.
    """
    sites = dict(members(evidence))
    by_cause: dict[str, dict[str, Hypothesis]] = {}
    for pattern, site in sites.items():
        with every_guess():  # what is observed goes through the whole group: no quick look may put a guess aside
            known = list(library_of(site, failures))
        for hypothesis in known:
            together = [p for p in sites if p.rpartition(".")[2] in hypothesis.leaves]
            everywhere = together or (sites if hypothesis.everywhere else [pattern])
            by_cause.setdefault(hypothesis.cause or f"{hypothesis.name} {hypothesis.says}", {}).update(
                dict.fromkeys(everywhere, hypothesis)
            )
    for at in by_cause.values():
        yield from made_at(at)


def made_at(at: Mapping[str, Hypothesis]) -> Iterator[Suspect]:
    """A mistake at all the places where it can be made, at those of one line, at one."""
    together = any(hypothesis.everywhere or hypothesis.leaves for hypothesis in at.values())
    for patterns, partial in _places(tuple(at), together=together).items():
        yield Suspect(at[patterns[0]], {pattern: at[pattern] for pattern in patterns}, partial)


@cache
def _places(patterns: tuple[str, ...], *, together: bool) -> Mapping[tuple[str, ...], int]:
    """The places out of these at which one mistake is made, and how partial each such choice is.

    Encoder keys are made by the lines that make keys, or not, or by lines of their own.
    """
    partial = {patterns: 0} if patterns else {}
    if len(patterns) < 2 or together:
        return partial
    leaf_of = {pattern: pattern.rpartition(".")[2] for pattern in patterns}
    leaves = {pattern: leaf.removeprefix("encoder_") for pattern, leaf in leaf_of.items()}
    for group in (*_TOGETHER, *(frozenset({leaf}) for leaf in leaves.values())):
        partial.setdefault(tuple(p for p in patterns if {leaf_of[p], leaves[p]} & group), 1)
        partial.setdefault(tuple(p for p in patterns if leaf_of[p] in group), 1)
    for pattern in patterns:
        partial.setdefault((pattern,), 2)
    partial.pop((), None)
    return partial


def library_of(site: Site, failures: list[str]) -> Iterator[Hypothesis]:
    """What may be wrong with the op of a site, by what was recorded there."""
    for library in LIBRARY.get(site.place.op, ()):
        try:
            with np.errstate(all="ignore"):
                yield from library(site)
        except (ArithmeticError, AttributeError, IndexError, KeyError, NameError, TypeError, ValueError) as error:
            failures.append(f"harness bug: hypotheses about {site.place.name}: {type(error).__name__}: {error}")


def members(evidence: Evidence) -> Iterator[tuple[str, Site]]:
    """The places in which the mistake may be, with their sites: the tap's own first, then those of its group.

    What a wrong gradient goes back through is right forward, or the gradient would not be judged.
    """
    yield evidence.site.place.pattern, evidence.site
    back = evidence.site.place.name.startswith(_GRADIENT)
    for name in evidence.others:
        if back and not name.startswith(_GRADIENT):
            continue
        values = evidence.site.values
        place = values.place(name)
        site = values.site(name, evidence.site.step)
        if place is not None and site is not None:
            yield place.pattern, site
