"""A golden with one tap replaced by wrong numbers, and what the library of hypotheses says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, read, tensor
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.tap_judge import TapJudge, expected
from qwen3_parity.blame.values import Values
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.explain_fault import numbers
from qwen3_parity.diagnosis.findings import Finding
from qwen3_parity.diagnosis.judged import judged
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
    recording = golden(case)
    weights = weights_of(recording, GOLDEN_ROOT / "checkpoints")
    item = recording[tap, step]
    if wrong is not None:
        site = Values(recording, weights, recording).site(tap, step)
        assert site is not None
        values = np.array(wrong(site), item.array.dtype, order="C")
        assert values.shape == item.array.shape
        item = tensor(tap, values, step=step, axes=item.info.axes, op=item.info.op, inputs=item.info.inputs)
    tensors = [item if old.key == item.key else old for old in recording]
    candidate = replace(recording, tensors=tensors, parameters=[])
    tap_evidence = TapJudge.of(candidate, weights, recording).evidence(item)
    assert isinstance(tap_evidence, Evidence)
    return tap_evidence


def explanations(tap_evidence: Evidence) -> list[Hypothesis]:
    """The hypotheses that bring every cell within the budget, the plainest first."""
    site = tap_evidence.site
    guesses = [hypothesis for library in LIBRARY[site.place.op] for hypothesis in library(site)]
    with np.errstate(all="ignore"):
        results = [(hypothesis, hypothesis.compute(site)) for hypothesis in guesses]
        return sorted(
            (hypothesis for hypothesis, result in results if result is not None and tap_evidence.share(result) <= 1),
            key=lambda hypothesis: hypothesis.rank,
        )


def first_name(case: str, tap: str, wrong: Wrong, step: int = 0) -> str:
    """The name of the best explanation of wrong numbers; "right" where they are within the truth's budget."""
    tap_evidence = evidence(case, tap, wrong, step)
    if tap_evidence.share(expected(tap_evidence)) <= 1:
        return "right"
    return next((hypothesis.name for hypothesis in explanations(tap_evidence)), "")


Row = tuple[str, str, str, Wrong] | tuple[str, str, str, Wrong, int]
"""The name of a mistake, or "right"; case, tap, what is computed there, and the step (0)."""


def named(rows: Mapping[str, Row], every: int = 4) -> Callable[[str], None]:
    """The test of a table: the first name of each row's numbers is the one that the row says."""

    @pytest.mark.sample(every=every)
    @pytest.mark.parametrize("row", sorted(rows, key=lambda row: rows[row][0] != "right"))
    def test(row: str) -> None:
        name, *place = rows[row]
        first = first_name(*place)  # type: ignore[arg-type]
        assert first == name, first

    return test


def said(evidence: Evidence) -> list[Finding]:
    """Everything that a wrong tap's numbers say, what tells most first, as in a diagnosis."""
    return numbers(judged(evidence))
