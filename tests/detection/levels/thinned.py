"""A golden's case with a mistake in it, recorded at a level, and its diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from detection.derived.seed import Compute, case_of, seeded
from qwen3_golden import GOLDEN_ROOT, Recording, pb, selected, table
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose
from qwen3_parity.diagnosis.search import ENOUGH
from qwen3_parity.recording.tap_sets import TAP_SETS
from qwen3_spec.ops import OPS


def thinned(whole: Recording, level: str) -> Recording:
    """A recording with the taps of a level alone, and what it says of itself."""
    tensors = [
        t for t in whole if t.info.name.startswith(("input.", "parameter.")) or selected(t.info.name, TAP_SETS[level])
    ]
    run = pb.Run()
    run.CopyFrom(whole.run)
    del run.materialised[:]
    run.materialised.extend(name for name in whole.run.materialised if selected(name, TAP_SETS[level]))
    return replace(whole, tensors=tensors, run=run)


def recorded(case: str, wrong: Mapping[str, Compute], level: str) -> tuple[Recording, Recording]:
    """The golden, and the case recorded at a level by an implementation with these wrong ops, by glob."""
    computations = {
        row.pattern: compute
        for row in table()
        for glob, compute in wrong.items()
        if fnmatchcase(row.pattern, glob) and row.op in OPS and not row.pattern.startswith("gradient.")
    }
    return case_of(case).golden, thinned(seeded(case_of(case), computations), level)


def diagnosis(case: str, wrong: Mapping[str, Compute], level: str, work: float = ENOUGH) -> Diagnosis:
    """What is said of such a recording; `work` as of `diagnose`."""
    golden, candidate = recorded(case, wrong, level)
    return diagnose(golden, candidate, weights_of(golden, GOLDEN_ROOT / "checkpoints"), work=work)
