"""A golden with one tap replaced by wrong numbers, and what the library of hypotheses says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from qwen3_golden import GOLDEN_ROOT, Array, Recording, read, tensor
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.replay import expected, gather
from qwen3_parity.blame.values import Values
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.explain_fault import numbers
from qwen3_parity.diagnosis.findings import Finding
from qwen3_parity.diagnosis.judged import judged
from qwen3_parity.judge.scope import Scope
from qwen3_parity.mistakes import Hypothesis
from qwen3_parity.mistakes.by_op import LIBRARY
from qwen3_spec.site import Site

Wrong = Callable[[Site], Array]


@cache
def golden(case: str) -> Recording:
    """A committed golden."""
    return read(GOLDEN_ROOT / "cases" / f"{case}.pb")


def evidence(case: str, tap: str, wrong: Wrong | None = None, step: int = 0) -> Evidence:
    """The evidence of a tap whose numbers are `wrong`'s, in the tap's own type; of parameters there are no digests."""
    right = golden(case)
    weights = weights_of(right, GOLDEN_ROOT / "checkpoints")
    item = right[tap, step]
    if wrong is not None:
        site = Values(right, weights, right).site(tap, step)
        assert site is not None
        values = np.array(wrong(site), item.array.dtype, order="C")
        assert values.shape == item.array.shape
        item = tensor(tap, values, step=step, axes=item.info.axes, op=item.info.op, inputs=item.info.inputs)
    tensors = [item if one.key == item.key else one for one in right]
    candidate = replace(right, tensors=tensors, parameters=[])
    found = gather(Values(candidate, weights, right), item, Scope(right))
    assert isinstance(found, Evidence)
    return found


def explanations(found: Evidence) -> list[Hypothesis]:
    """The hypotheses that bring every cell within the budget, the plainest first."""
    site = found.site
    guesses = [one for library in LIBRARY[site.place.op] for one in library(site)]
    with np.errstate(all="ignore"):
        results = [(one, one.compute(site)) for one in guesses]
        return sorted(
            (one for one, result in results if result is not None and found.share(result) <= 1),
            key=lambda one: one.rank,
        )


def first_name(case: str, tap: str, wrong: Wrong, step: int = 0) -> str:
    """The name of the best explanation of wrong numbers, after the truth was seen to fail."""
    found = evidence(case, tap, wrong, step)
    assert found.share(expected(found)) > 1
    return next((one.name for one in explanations(found)), "")


def said(evidence: Evidence) -> list[Finding]:
    """Everything that a wrong tap's numbers say, what tells most first, as in a diagnosis."""
    return numbers(judged(evidence))
