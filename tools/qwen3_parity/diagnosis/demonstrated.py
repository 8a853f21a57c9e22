"""A known mistake, shown: a golden's case as an implementation would record it that makes the mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qwen3_golden import Array, Recording
from qwen3_parity.blame.rerun import Rerun, seeded
from qwen3_parity.mistakes.by_op import LIBRARY


def with_mistake(golden: Recording, weights: Mapping[str, Array], name: str, places: Sequence[str]) -> Recording:
    """The case of a decoder with the mistake `name` at these places of its attention, in every layer and step.

    `weights` by canonical name. Raises `StopIteration` for a mistake that the library does not know there.
    """
    run = Rerun(golden.case.name, golden, weights)
    overrides = {}
    for place in places:
        site = run.reference.site(f"decoder.layers.0.merged_attn.{place}", 0)
        assert site is not None, f"harness bug: {golden.case.name} has no {place}"
        mistakes = (mistake for library in LIBRARY[site.place.op] for mistake in library(site))
        overrides[site.place.pattern] = next(mistake.compute for mistake in mistakes if mistake.name == name)
    return seeded(run, overrides)
