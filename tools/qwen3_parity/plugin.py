"""The pytest plugin: `pytest tests/parity [--candidate DIR] [--backend NAME]` judges recordings with the same tests."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from qwen3_parity.judge.verdict import Verdicts

_JUDGED = pytest.StashKey[dict[str, "Verdicts"]]()
_SUMS = pytest.StashKey[dict[str, "Sums"]]()
_CANDIDATES = pytest.StashKey[dict[str, Path]]()
SENT = "qwen3_parity"
"""Where the output of a worker has its sums."""

Sums = tuple[str, int, int, float | None, str, str]
"""Of a golden: its case, taps compared, of how many, the largest share (None: text), where, and the contract."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    group = parser.getgroup("qwen3-parity")
    group.addoption(
        "--candidate",
        type=Path,
        metavar="DIR",
        help="judge the recordings in DIR, found by their case.name, in place of our implementation's",
    )
    group.addoption("--partial", action="store_true", help="the results of a case need not be among its recording")
    group.addoption("--backend", default="eager", choices=["eager", "sdpa", "flex"], help="attention of ours")


def pytest_configure(config: pytest.Config) -> None:
    """A place for the verdicts of the session, and for what they come to, other processes' included.

    Raises `pytest.UsageError` for a folder of candidates of which not every recording can be judged.
    """
    config.stash[_JUDGED] = {}
    config.stash[_SUMS] = {}
    folder: Path | None = config.getoption("--candidate")
    if folder is None:
        return
    from qwen3_golden import ParityError
    from qwen3_parity.judge.candidates import candidates, golden_names

    try:
        config.stash[_CANDIDATES] = candidates(folder, golden_names())
    except ParityError as error:
        raise pytest.UsageError(str(error)) from None


@cache
def _case_name(golden: Path) -> str:
    from qwen3_golden import read

    return read(golden).case.name


class Judge:
    """Gives the verdicts on a golden, recording our implementation once a session; no model runs with --candidate."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._candidates = config.stash.get(_CANDIDATES, None)
        self._backend: str = config.getoption("--backend")
        self._partial: bool = config.getoption("--partial")
        self._judged = config.stash[_JUDGED]
        self._folder = folder

    def candidate(self, golden: Path) -> Path:
        """The candidate's recording of a golden's case; skips, visibly, a case that --candidate does not have."""
        name = _case_name(golden)
        if self._candidates is not None:
            if name not in self._candidates:
                pytest.skip(f"no recording of {name} was delivered")
            return self._candidates[name]
        path = self._folder / f"{name}.pb"
        if not path.is_file():
            self._record(golden, path)
        return path

    def _record(self, file: Path, path: Path) -> None:
        from qwen3_golden import pb, read, write
        from qwen3_parity.recording.ours.network import factory, golden_dtype
        from qwen3_parity.recording.record import record
        from qwen3_parity.recording.text import record_tokenization

        golden = read(file)
        if golden.case.mode == pb.PLUMBING:  # nothing is computed: what our reader and writer make of the file
            write(path, golden)
        elif golden.case.mode == pb.TOKENIZATION:
            record_tokenization(golden, path)
        else:
            record(golden, path, factory(self._backend, golden_dtype(golden)))

    def __call__(self, golden: Path) -> Verdicts:
        """The verdicts on a golden's case."""
        from qwen3_golden import GOLDEN_ROOT, read
        from qwen3_parity.check import check
        from qwen3_parity.checkpoints.weights import weights_at_hand

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
    from qwen3_parity.text.show import is_tokenization

    found: dict[str, Sums] = {}
    for golden, verdicts in judged.items():
        worst = None if is_tokenization(verdicts) else verdicts.worst
        share, where = (None, "") if worst is None else (float(worst.share), worst.where)
        found[golden] = (verdicts.case.name, verdicts.compared, verdicts.of, share, where, str(verdicts.contract))
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist sends the sums of its verdicts to the process that prints the summary.

    There, candidates of which not one was judged are a failure.
    """
    sent: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if sent is not None:
        sent[SENT] = _sums(session.config.stash[_JUDGED])
    elif _CANDIDATES in session.config.stash and not _all_sums(session.config) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The sums of a worker of pytest-xdist join the others; a golden that two of them judged counts once."""
    node.config.stash[_SUMS].update(getattr(node, "workeroutput", {}).get(SENT, {}))


def _all_sums(config: pytest.Config) -> dict[str, Sums]:
    return config.stash[_SUMS] | _sums(config.stash[_JUDGED])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How much was compared and how well, in one line; of candidates also which were judged, and which were not."""
    sums = _all_sums(config)
    delivered = config.stash.get(_CANDIDATES, None)
    if not sums and delivered is None:
        return
    compared, of = sum(one[1] for one in sums.values()), sum(one[2] for one in sums.values())
    text = f"{compared} of {of} taps compared in {len(sums)} cases"
    shares = [(share, where, case) for case, _, _, share, where, _ in sums.values() if share is not None]
    if shares:
        share, where, case = max(shares, key=lambda one: one[0])
        text += f"; largest share of a budget {share:.2g} at {where} of {case}"
    terminalreporter.section("parity")
    contracts = [f"judged by {contract}" for contract in dict.fromkeys(one[5] for one in sums.values())]
    for line in [text, *contracts, *([] if delivered is None else _deliveries(sums, delivered))]:
        terminalreporter.write_line(line)


def _deliveries(sums: dict[str, Sums], delivered: Iterable[str]) -> list[str]:
    """Which candidates were judged, which were delivered and no test asked for, and which cases have none."""
    from qwen3_parity.judge.candidates import golden_names

    judged = {one[0] for one in sums.values()}
    groups = {
        "judged": judged,
        "delivered, and no test of this run judged it": set(delivered) - judged,
        "not delivered": golden_names().keys() - set(delivered),
    }
    lines = [f"{what}, {len(names)}: {', '.join(sorted(names))}" for what, names in groups.items() if names]
    return lines if judged else ["nothing was judged, and that is a failure", *lines]
