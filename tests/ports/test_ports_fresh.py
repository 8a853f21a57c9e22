"""The ports on cases that nobody has run before, over the pipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qwen3_parity.conformance.fresh import fresh, strategy
from qwen3_parity.conformance.port import Limits, Port


@pytest.mark.slow
@pytest.mark.parametrize("port", ["java", "cpp"], indirect=True)
@pytest.mark.parametrize("seed", (1, 2, 3))
def test_a_port_passes_200_fresh_cases_under_each_seed(seed: int, port: Any, tmp_path: Path) -> None:
    cases = strategy(())
    assert cases is not None
    with Port([*port.command, "answer"], Limits(60.0)) as process:
        outcome = fresh(process.ask, cases, seed, 200, tmp_path)
    assert outcome.failure is None and outcome.judged == 200 and not outcome.unsupported and not process.remarks
