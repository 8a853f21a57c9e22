"""How long `diagnose` takes at every level of recording, beside `check` of the same file, both as they are typed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from ratios import report

from detection.derived.seed import Compute, case_of
from detection.levels.thinned import recorded
from qwen3_golden import GOLDEN_ROOT, write
from qwen3_parity.recording.tap_sets import TAP_SETS
from qwen3_spec.heads import heads_first
from qwen3_spec.site import Result, Site

pytestmark = [pytest.mark.bench, pytest.mark.benchmark(group="diagnosis")]

CASES = (
    *("decoder/ragged_decode", "encoder/ragged", "encdec/ragged", "encdec/window", "generation/greedy"),
    *("long/deep", "models/qwen3-8b", "models/qwen3-0.6b"),
)
AT_MOST = {"median seconds": 2, "worst seconds": 10, "median of a check": 10, "worst of a check": 50}


def interleaved(site: Site) -> Result:
    """Channels 2 i and 2 i + 1 turned together: the commonest mistake of a port."""
    x, cos, sin = site.inputs
    x = heads_first(x, site.config.head_dim)
    half = x.shape[-1] // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    even, odd = x[..., ::2], x[..., 1::2]
    turned = np.stack((even * cos - odd * sin, odd * cos + even * sin), -1).reshape(x.shape)
    return turned, np.zeros_like(turned)


def negated(site: Site) -> Result:
    """A branch that is subtracted."""
    stream, branch = (np.asarray(operand, np.float64) for operand in site.inputs)
    return stream - branch, np.zeros(stream.shape)


def strange(site: Site) -> Result:
    """What no mistake in the library does: the search goes through all of it."""
    stream, branch = (np.asarray(operand, np.float64) for operand in site.inputs)
    return stream + np.sin(3 * branch), np.zeros(stream.shape)


MISTAKES: Mapping[str, Mapping[str, Compute]] = {
    "interleaved RoPE": {"*[qk]_rope": interleaved},
    "subtracted branch": {"*.attn_residual": negated},
    "unknown": {"*.layers.{layer}.output": strange},
}


@dataclass(frozen=True)
class Timed:
    """The seconds of `diagnose`, and of `check` of the same file, from their start to their end."""

    label: str
    diagnosis: float
    check: float

    @property
    def ratio(self) -> float:
        """Checks in the time of a diagnosis."""
        return self.diagnosis / self.check


def timed(case: str, mistake: str, level: str, path: Path) -> Timed | None:
    """None where the case does not show the mistake at the level."""
    _, candidate = recorded(case, MISTAKES[mistake], level)
    write(path, candidate)
    judged, code = _seconds("check", case, path)
    if not code:
        return None
    return Timed(f"{mistake}, {case}, {level}", _seconds("diagnose", case, path)[0], judged)


def _seconds(verb: str, case: str, path: Path) -> tuple[float, int]:
    command = [sys.executable, "-m", "qwen3_parity", verb, str(GOLDEN_ROOT / "cases" / f"{case}.pb"), str(path)]
    start = perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    return perf_counter() - start, done.returncode


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_diagnosis_takes_seconds_at_every_level(
    mistake: str, benchmark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    measured = list(every(mistake, tmp_path / "candidate.pb"))
    slowest = max(measured, key=lambda timing: timing.diagnosis)
    furthest = max(measured, key=lambda timing: timing.ratio)
    figures = {
        "median seconds": median(timing.diagnosis for timing in measured),
        "worst seconds": slowest.diagnosis,
        "median of a check": median(timing.ratio for timing in measured),
        "worst of a check": furthest.ratio,
    }
    benchmark.pedantic(lambda: case_of(CASES[0]), rounds=1)
    report(benchmark, capsys, f"{mistake}, {len(measured)} diagnoses", figures)
    with capsys.disabled():
        print(f"hoped for at most {AT_MOST}; slowest {slowest.label}, furthest from its check {furthest.label}")


def every(mistake: str, path: Path) -> Iterator[Timed]:
    """The mistake in every case at every level, where it shows."""
    for case in CASES:
        for level in TAP_SETS:
            timing = timed(case, mistake, level, path)
            if timing is not None:
                yield timing
