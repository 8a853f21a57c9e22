"""A right and a wrong candidate of one small case, made without a framework, and what a report is of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from qwen3_golden import GOLDEN_ROOT, Array, read
from qwen3_golden.writer import write
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.demonstrated import with_mistake
from qwen3_parity.report.page.contents import Report
from qwen3_parity.report.page.mistakes import mistakes_of

CASE = "decoder/plain"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
GOLDEN = GOLDEN_ROOT / "cases" / f"{CASE}.pb"


@dataclass(frozen=True)
class Seeded:
    """A candidate with RoPE that pairs neighbours, its file, and its diagnosis."""

    path: Path
    diagnosis: Diagnosis
    weights: dict[str, Array]

    @property
    def report(self) -> Report:
        return Report([self.diagnosis.verdicts], mistakes_of(self.diagnosis), weights=self.weights)


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    golden = read(GOLDEN)
    weights = dict(weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    path = tmp_path_factory.mktemp("report") / f"{CASE}.pb"
    path.parent.mkdir()
    write(path, with_mistake(golden, weights, "rope.interleaved", ("q_rope", "k_rope")))
    return Seeded(path, diagnose(golden, read(path), weights), weights)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium, as installed; without it, or what drives it, the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install 'qwen3-parity[dev]'")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=list(FLAGS))
        yield running
        running.close()
