"""The pytest plugin: `pytest tests/parity [--candidate DIR] [--backend NAME]` judges recordings with the same tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from qwen3_parity.verdict import Verdicts

_JUDGED = pytest.StashKey[dict[str, "Verdicts"]]()
_SUMS = pytest.StashKey[dict[str, "Sums"]]()
SENT = "qwen3_parity"
"""Where the output of a worker has its sums."""

Sums = tuple[str, int, int, float | None, str]
"""What is summed up of a golden: its case, taps compared, of how many, the largest share (None: text), and where."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    group = parser.getgroup("qwen3-parity")
    group.addoption(
        "--candidate",
        type=Path,
        metavar="DIR",
        help="judge the recordings in DIR (CASE.pb, or FOLDER/CASE.pb as the goldens) in place of our implementation's",
    )
    group.addoption("--partial", action="store_true", help="the results of a case need not be among its recording")
    group.addoption("--backend", default="eager", choices=["eager", "sdpa", "flex"], help="attention of ours")


def pytest_configure(config: pytest.Config) -> None:
    """A place for the verdicts of the session, and for what they come to, other processes' included."""
    config.stash[_JUDGED] = {}
    config.stash[_SUMS] = {}


@cache
def _case_name(golden: Path) -> str:
    from qwen3_golden import read

    return read(golden).case.name


class Judge:
    """Gives the verdicts on a golden, recording our implementation once a session; no model runs with --candidate."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._candidates: Path | None = config.getoption("--candidate")
        self._backend: str = config.getoption("--backend")
        self._partial: bool = config.getoption("--partial")
        self._judged = config.stash[_JUDGED]
        self._folder = folder

    def candidate(self, golden: Path) -> Path:
        """The candidate's recording of a golden's case; skips, visibly, a case that --candidate does not have."""
        name = f"{_case_name(golden)}.pb"
        if self._candidates is not None:
            found = next(
                (p for p in (self._candidates / name, self._candidates / Path(name).name) if p.is_file()), None
            )
            if found is None:
                pytest.skip(f"{self._candidates} has no recording of {name.removesuffix('.pb')}")
            return found
        path = self._folder / name
        if not path.is_file():
            self._record(golden, path)
        return path

    def _record(self, file: Path, path: Path) -> None:
        from qwen3_golden import pb, read
        from qwen3_parity.implementation import factory, golden_dtype
        from qwen3_parity.record import record
        from qwen3_parity.tokenization.record import record_tokenization

        golden = read(file)
        if golden.case.mode == pb.TOKENIZATION:
            record_tokenization(golden, path)
        else:
            record(golden, path, factory(self._backend, golden_dtype(golden)))

    def __call__(self, golden: Path) -> Verdicts:
        """The verdicts on a golden's case."""
        from qwen3_golden import GOLDEN_ROOT, read
        from qwen3_parity.check import check
        from qwen3_parity.weights import weights_at_hand

        key = str(golden)
        if key not in self._judged:
            expected = read(golden, digests=True)
            weights = weights_at_hand(expected, GOLDEN_ROOT / "checkpoints")
            self._judged[key] = check(expected, self.candidate(golden), weights, partial=self._partial)
        return self._judged[key]


@pytest.fixture(scope="session")
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """`judge(golden path) -> Verdicts`."""
    return Judge(request.config, tmp_path_factory.mktemp("recordings"))


def _sums(judged: dict[str, Verdicts]) -> dict[str, Sums]:
    from qwen3_parity.tokenization.show import is_tokenization

    found: dict[str, Sums] = {}
    for golden, verdicts in judged.items():
        worst = None if is_tokenization(verdicts) else verdicts.worst
        share, where = (None, "") if worst is None else (float(worst.share), worst.where)
        found[golden] = (verdicts.case.name, verdicts.compared, verdicts.of, share, where)
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist sends the sums of its verdicts to the process that prints the summary."""
    sent: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if sent is not None:
        sent[SENT] = _sums(session.config.stash[_JUDGED])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The sums of a worker of pytest-xdist join the others; a golden that two of them judged counts once."""
    node.config.stash[_SUMS].update(getattr(node, "workeroutput", {}).get(SENT, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How much was compared and how well, in one line."""
    sums = config.stash[_SUMS] | _sums(config.stash[_JUDGED])
    if not sums:
        return
    compared, of = sum(one[1] for one in sums.values()), sum(one[2] for one in sums.values())
    text = f"{compared} of {of} taps compared in {len(sums)} cases"
    shares = [(share, where, case) for case, _, _, share, where in sums.values() if share is not None]
    if shares:
        share, where, case = max(shares, key=lambda one: one[0])
        text += f"; largest share of a budget {share:.2g} at {where} of {case}"
    terminalreporter.section("parity")
    terminalreporter.write_line(text)
