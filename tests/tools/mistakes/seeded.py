"""A golden's case run with wrong ops in it, as a candidate would record it, and the whole diagnosis of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import PurePath

from wrong_numbers import golden

from qwen3_golden import GOLDEN_ROOT, Array, Recording
from qwen3_parity.blame.rerun import Rerun
from qwen3_parity.blame.rerun import seeded as rerun
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose
from qwen3_parity.diagnosis.explained import Explained
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

Compute = Callable[[Site], "Result | None"]
"""A wrong op; None where it is right."""


@cache
def weights(case: str) -> Mapping[str, Array]:
    """The parameters of a committed case."""
    return weights_of(golden(case), GOLDEN_ROOT / "checkpoints")


@cache
def _case(case: str) -> Rerun:
    return Rerun(case, golden(case), weights(case))


def changed(change: Callable[[Array, Site], Array]) -> Compute:
    """The right op's output, changed."""

    def compute(site: Site) -> Result:
        y, unit = OPS[site.place.op].truth(site)
        return change(y, site), unit

    return compute


def seeded(case: str, wrong: Mapping[str, Compute], *, taps: str = "*", without: tuple[str, ...] = ()) -> Recording:
    """The case with the places of these patterns computed wrongly; of its taps those that a glob matches.

    `without` are the ends of names that are left out.
    """
    recording = rerun(_case(case), wrong)
    named = (item for item in recording if not without or not item.info.name.endswith(without))
    recorded = (item for item in named if item.info.name.startswith("input.") or PurePath(item.info.name).match(taps))
    return replace(recording, tensors=list(recorded))


def diagnosed(case: str, wrong: Mapping[str, Compute], *, taps: str = "*", without: tuple[str, ...] = ()) -> Diagnosis:
    """The diagnosis of `seeded`."""
    return diagnose(golden(case), seeded(case, wrong, taps=taps, without=without), weights(case), partial=True)


def fault(case: str, wrong: Mapping[str, Compute], *, taps: str = "*", without: tuple[str, ...] = ()) -> Explained:
    """The only fault of `seeded`."""
    (explained,) = diagnosed(case, wrong, taps=taps, without=without).faults
    return explained
