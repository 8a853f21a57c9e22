"""A right and a wrong candidate of one small case, made without a framework, and what a report is of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, Array, read
from qwen3_golden.writer import write
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.demonstrated import with_mistake
from qwen3_parity.diagnosis.diagnose import Diagnosis
from qwen3_parity.report.page.contents import Report
from qwen3_parity.report.page.mistakes import mistakes_of

CASE = "decoder/plain"
GOLDEN = GOLDEN_ROOT / "cases" / f"{CASE}.pb"


@dataclass(frozen=True)
class Seeded:
    """A candidate with RoPE that pairs neighbours, its file, and its diagnosis."""

    path: Path
    found: Diagnosis
    weights: dict[str, Array]

    @property
    def report(self) -> Report:
        return Report([self.found.verdicts], mistakes_of(self.found), weights=self.weights)


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    golden = read(GOLDEN)
    weights = dict(weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    path = tmp_path_factory.mktemp("report") / f"{CASE}.pb"
    path.parent.mkdir()
    write(path, with_mistake(golden, weights, "rope.interleaved", ("q_rope", "k_rope")))
    return Seeded(path, diagnose(golden, read(path), weights), weights)
