"""How long a diagnosis takes at every level of recording, beside a check of the same file: ratios within one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from ratios import report

from detection.derived.seed import Compute, case_of
from detection.levels.thinned import recorded
from qwen3_parity.check import check
from qwen3_parity.diagnosis.diagnose import diagnose
from qwen3_parity.recording.levels import LEVELS
from qwen3_spec.heads import heads_first
from qwen3_spec.site import Result, Site

pytestmark = [pytest.mark.bench, pytest.mark.benchmark(group="diagnosis")]

CASES = (
    *("decoder/ragged_decode", "encoder/ragged", "encdec/ragged", "encdec/window", "generation/greedy"),
    *("long/deep", "models/qwen3-8b", "models/qwen3-0.6b"),
)
BUDGET = 10.0
"""Seconds, as those of the command line."""
AT_MOST = {"median seconds": 2, "worst seconds": 10, "median of a check": 10, "worst of a check": 50}


def interleaved(site: Site) -> Result:
    """Channels 2 i and 2 i + 1 turned together: the commonest mistake of a port."""
    x, cos, sin = site.inputs
    x = heads_first(x, site.config.head_dim)
    half = x.shape[-1] // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    one, other = x[..., ::2], x[..., 1::2]
    turned = np.stack((one * cos - other * sin, other * cos + one * sin), -1).reshape(x.shape)
    return turned, np.zeros_like(turned)


def negated(site: Site) -> Result:
    """A branch that is subtracted."""
    stream, branch = (np.asarray(one, np.float64) for one in site.inputs)
    return stream - branch, np.zeros(stream.shape)


def strange(site: Site) -> Result:
    """What no mistake in the library does: the search goes through all of it."""
    stream, branch = (np.asarray(one, np.float64) for one in site.inputs)
    return stream + np.sin(3 * branch), np.zeros(stream.shape)


MISTAKES: Mapping[str, Mapping[str, Compute]] = {
    "interleaved RoPE": {"*[qk]_rope": interleaved},
    "subtracted branch": {"*.attn_residual": negated},
    "unknown": {"*.layers.{layer}.output": strange},
}


@dataclass(frozen=True)
class Timed:
    """The seconds of a diagnosis, and of a check of the same file."""

    what: str
    diagnosis: float
    check: float

    @property
    def ratio(self) -> float:
        """Checks in the time of a diagnosis."""
        return self.diagnosis / self.check


def timed(case: str, mistake: str, level: str) -> Timed | None:
    """None where the case does not show the mistake at the level."""
    golden, candidate = recorded(case, MISTAKES[mistake], level)
    check(golden, candidate)  # warm
    start = perf_counter()
    verdicts = check(golden, candidate)
    middle = perf_counter()
    if not verdicts.exit_code:
        return None
    diagnose(golden, candidate, case_of(case).weights, budget=BUDGET)
    return Timed(f"{mistake}, {case}, {level}", perf_counter() - middle, middle - start)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_diagnosis_takes_seconds_at_every_level(
    mistake: str, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    found = list(every(mistake))
    slowest = max(found, key=lambda one: one.diagnosis)
    furthest = max(found, key=lambda one: one.ratio)
    figures = {
        "median seconds": median(one.diagnosis for one in found),
        "worst seconds": slowest.diagnosis,
        "median of a check": median(one.ratio for one in found),
        "worst of a check": furthest.ratio,
    }
    benchmark.pedantic(lambda: case_of(CASES[0]), rounds=1)
    report(benchmark, capsys, f"{mistake}, {len(found)} diagnoses", figures)
    with capsys.disabled():
        print(f"hoped for at most {AT_MOST}; slowest {slowest.what}, furthest from its check {furthest.what}")


def every(mistake: str) -> Iterator[Timed]:
    """The mistake in every case at every level, where it shows."""
    for case in CASES:
        for level in LEVELS:
            one = timed(case, mistake, level)
            if one is not None:
                yield one
