"""The pytest plugin: `pytest tests/parity [--candidate DIR] [--backend NAME]` judges recordings with the same tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from qwen3_golden import Recording
    from qwen3_parity.verdict import Verdicts

_JUDGED = pytest.StashKey[dict[str, "Verdicts"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    group = parser.getgroup("qwen3-parity")
    group.addoption(
        "--candidate",
        type=Path,
        metavar="DIR",
        help="judge the recordings in DIR (CASE.pb, or FOLDER/CASE.pb as the goldens) in place of our implementation's",
    )
    group.addoption("--backend", default="eager", choices=["eager", "sdpa", "flex"], help="attention of ours")


def pytest_configure(config: pytest.Config) -> None:
    """A place for the verdicts of the session."""
    config.stash[_JUDGED] = {}


class Judge:
    """Gives the verdicts on a golden, recording our implementation once a session; no model runs with --candidate."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._candidates: Path | None = config.getoption("--candidate")
        self._backend: str = config.getoption("--backend")
        self._judged = config.stash[_JUDGED]
        self._folder = folder

    def candidate(self, golden: Path) -> Path:
        """The candidate's recording of a golden's case; skips, visibly, a case that --candidate does not have."""
        from qwen3_golden import read

        recording = read(golden)
        name = f"{recording.case.name}.pb"
        if self._candidates is not None:
            found = next(
                (p for p in (self._candidates / name, self._candidates / Path(name).name) if p.is_file()), None
            )
            if found is None:
                pytest.skip(f"{self._candidates} has no recording of {recording.case.name}")
            return found
        path = self._folder / name
        if not path.is_file():
            self._record(recording, path)
        return path

    def _record(self, golden: Recording, path: Path) -> None:
        from qwen3_golden import pb
        from qwen3_parity.implementation import factory, golden_dtype
        from qwen3_parity.record import record
        from qwen3_parity.tokenization.record import record_tokenization

        if golden.case.mode == pb.TOKENIZATION:
            record_tokenization(golden, path)
        else:
            record(golden, path, factory(self._backend, golden_dtype(golden)))

    def __call__(self, golden: Path) -> Verdicts:
        """The verdicts on a golden's case."""
        from qwen3_parity.check import check

        key = str(golden)
        if key not in self._judged:
            self._judged[key] = check(golden, self.candidate(golden))
        return self._judged[key]


@pytest.fixture(scope="session")
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """`judge(golden path) -> Verdicts`."""
    return Judge(request.config, tmp_path_factory.mktemp("recordings"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How much was compared and how well, in one line."""
    judged = config.stash[_JUDGED]
    if not judged:
        return
    from qwen3_parity.tokenization.show import is_tokenization

    compared, of = sum(v.compared for v in judged.values()), sum(v.of for v in judged.values())
    shares = [v for v in judged.values() if v.worst and not is_tokenization(v)]
    worst = max(shares, key=lambda v: v.worst.share if v.worst else 0.0, default=None)
    text = f"{compared} of {of} taps compared in {len(judged)} cases"
    if worst is not None and worst.worst is not None:
        text += f"; largest share of a budget {worst.worst.share:.2g} at {worst.worst.where} of {worst.case.name}"
    terminalreporter.section("parity")
    terminalreporter.write_line(text)
