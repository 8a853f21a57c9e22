"""The pytest plugin: recordings judged by tests, one diagnosis at the end, and fixtures for the tests of any project.

`pytest tests/parity [--parity-candidate=DIR] [--backend NAME]` judges our implementation, or recordings made elsewhere.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Collection, Generator, Iterator
from functools import cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from qwen3_parity.report.sums import Sums, beside, comparisons, deliveries, red_tests

if TYPE_CHECKING:
    from qwen3_parity.judge.verdict import Verdict, Verdicts
    from qwen3_parity.recording.case import Case

_JUDGED = pytest.StashKey[dict[str, "Verdicts"]]()
_SUMS = pytest.StashKey[dict[str, Sums]]()
_CANDIDATES = pytest.StashKey[dict[str, Path]]()
SENT = "qwen3_parity"
"""Where the output of a worker has its sums."""
ITSELF, DOWNSTREAM, BESIDE = (("red", kind) for kind in ("itself", "downstream", "beside"))
"""Properties of a red test: its op is wrong; an op before it is; it judges no golden with the others."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this plugin, with a prefix: every project where this is installed has them."""
    group = parser.getgroup("qwen3-parity")
    group.addoption(
        "--parity-candidate",
        type=Path,
        metavar="DIR",
        help="judge the recordings in DIR, found by their case.name, in place of our implementation's",
    )
    group.addoption("--parity-partial", action="store_true", help="the results of a case need not be in its recording")
    group.addoption("--parity-backend", default="eager", choices=["eager", "sdpa", "flex"], help="attention of ours")
    group.addoption(
        "--parity-budget",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="when the search for mistakes in the end is cut; without it, it ends by itself, everywhere alike",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any conftest.py is read: pytest must have no configuration, plugin or test from the judged folder.

    Raises `pytest.UsageError` where it has.
    """
    options = early_config.known_args_namespace
    folder: Path | None = options.parity_candidate
    if folder is None:
        return
    from qwen3_parity.judge.own_rules import configured_by, imported_from

    files = [] if early_config.inipath is None else [early_config.inipath]
    if any(getattr(options, name, False) for name in ("lf", "failedfirst", "newfirst", "stepwise")):
        files.append(early_config.rootpath / ".pytest_cache")
    cwd = early_config.invocation_params.dir
    named = (cwd / name.partition("::")[0] for name in options.file_or_dir)
    refusal = configured_by(folder, cwd, files, [path for path in named if path.exists()]) or imported_from(folder)
    if refusal:
        raise pytest.UsageError(refusal)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Raises `pytest.UsageError` where a module of the judged folder was imported since, by a conftest.py or a test."""
    folder: Path | None = session.config.getoption("parity_candidate")
    if folder is None:
        return
    from qwen3_parity.judge.own_rules import imported_from

    if refusal := imported_from(folder):
        raise pytest.UsageError(refusal)


def pytest_configure(config: pytest.Config) -> None:
    """A place for the verdicts of the session, and for what they come to, other processes' included.

    Raises `pytest.UsageError` for a folder of candidates of which not every recording can be judged.
    """
    config.stash[_JUDGED] = {}
    config.stash[_SUMS] = {}
    folder: Path | None = config.getoption("parity_candidate")
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
    """Gives the verdicts on a golden, recording our implementation once a session; no model runs with
    --parity-candidate."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._candidates = config.stash.get(_CANDIDATES, None)
        self._backend: str = config.getoption("parity_backend")
        self._partial: bool = config.getoption("parity_partial")
        self._judged = config.stash[_JUDGED]
        self._folder = folder

    def candidate(self, golden: Path) -> Path:
        """The candidate's recording of a golden's case; skips, visibly, a case that DIR does not have."""
        name = _case_name(golden)
        if self._candidates is not None:
            if name not in self._candidates:
                pytest.skip(f"no recording of {name} was delivered")
            return self._candidates[name]
        path = self._folder / f"{name}.pb"
        if not path.is_file():
            try:
                self._record(golden, path)
            except ModuleNotFoundError as error:
                from qwen3_parity.report.extras import extra_of

                extra = extra_of(error.name or "")
                need = f"pip install 'qwen3-parity[{extra}]' to judge our implementation" if extra else str(error)
                pytest.fail(f"{need}; recordings are judged with --parity-candidate=DIR", pytrace=False)
        return path

    def _record(self, file: Path, path: Path) -> None:
        from qwen3_golden import damaged, pb, read, write
        from qwen3_parity.recording.factories import factory_of
        from qwen3_parity.recording.record import record
        from qwen3_parity.recording.text import record_tokenization

        golden = read(file)
        if golden.case.mode == pb.PLUMBING:  # nothing is computed: what our reader and writer make of the file
            write(path, golden)
        elif golden.case.op == damaged.OP:
            write(path, damaged.answered(golden))
        elif golden.case.mode == pb.TOKENIZATION:
            record_tokenization(golden, path, factory_of(golden, None))
        else:
            record(golden, path, factory_of(golden, None, self._backend))

    def __call__(self, golden: Case | str | Path, candidate: str | Path | None = None) -> Verdicts:
        """The verdicts on a golden's case, and its place in the diagnosis that the run ends with.

        `golden` is a name ("decoder/plain") or a file. `candidate` is a recording; without one it is that of
        --parity-candidate, or our implementation's.
        """
        from qwen3_golden import read
        from qwen3_parity.check import check
        from qwen3_parity.checkpoints.weights import checkpoints_of, weights_at_hand
        from qwen3_parity.recording.case import golden as case_of

        file = golden if isinstance(golden, Path) else case_of(golden).path
        key = str(file) if candidate is None else f"{file} {candidate}"
        if key not in self._judged:
            actual = self.candidate(file) if candidate is None else candidate  # skips what was not delivered
            expected = read(file, digests=True)
            weights = weights_at_hand(expected, checkpoints_of(file))
            self._judged[key] = check(expected, actual, weights, partial=self._partial)
        return self._judged[key]

    @staticmethod
    def require(verdicts: Verdicts, taps: Collection[Verdict] | None = None) -> None:
        """Fail unless these taps of a run are right, all of them if none are named; see `judge.not_parity.require`."""
        __tracebackhide__ = True
        from qwen3_parity.judge.not_parity import require

        require(verdicts, taps)


@pytest.fixture(scope="session")
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """`judge(golden, recording) -> Verdicts` of qwen3_parity; red ones are diagnosed when the run ends."""
    return Judge(request.config, tmp_path_factory.mktemp("recordings"))


@pytest.fixture(scope="session")
def golden() -> Callable[..., Case]:
    """`golden("decoder/plain") -> Case` of qwen3_parity: inputs, steps, checkpoint and every tap."""
    from qwen3_parity import golden

    return golden


@pytest.fixture(scope="session")
def assert_parity() -> Callable[..., None]:
    """`assert_parity(actual, golden, tap, step=0)` of qwen3_parity: an array within the budget of a golden's tap."""
    from qwen3_parity import assert_parity

    return assert_parity


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is red by a judged golden has the op to blame among its properties, and its message alone to say."""
    report = yield
    loaded = sys.modules.get("qwen3_parity.judge.not_parity")
    error = call.excinfo.value if call.excinfo else None
    if loaded is None or not report.failed or not isinstance(error, loaded.NotParityError):
        return report
    properties = [("blamed", error.blamed)] if error.blamed else []
    if isinstance(error, loaded.RedCaseError):
        properties.append(DOWNSTREAM if error.downstream else ITSELF)
        report.longrepr = str(error)
    item.user_properties += properties
    report.user_properties += properties
    return report


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """What is red because of an op before it is counted by itself; the run fails all the same."""
    return ("downstream", "d", "DOWNSTREAM") if report.failed and _is(report, DOWNSTREAM) else None


def _is(report: pytest.TestReport | pytest.CollectReport, *kinds: tuple[str, str]) -> bool:
    return any(tuple(pair) in kinds for pair in getattr(report, "user_properties", ()))


def _sums(judged: dict[str, Verdicts]) -> dict[str, Sums]:
    from qwen3_golden import pb
    from qwen3_parity.judge.spoken import spoken
    from qwen3_parity.report.verdicts import summary
    from qwen3_parity.text.show import is_tokenization

    sums_by_key: dict[str, Sums] = {}
    for key, verdicts in judged.items():
        worst = None if is_tokenization(verdicts) else verdicts.worst
        share, where = (None, "") if worst is None else (float(worst.share), spoken(worst.where, verdicts.case))
        sums = Sums(verdicts.case.name, verdicts.compared, verdicts.of, share, where, str(verdicts.contract))
        if verdicts.exit_code:
            line = summary(verdicts).removeprefix(f"{verdicts.case.name}: ")
            alone = verdicts.case.mode == pb.OP
            sums = sums._replace(red=line, golden=verdicts.golden, candidate=verdicts.candidate, alone=alone)
        sums_by_key[key] = sums
    return sums_by_key


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist sends the sums of its verdicts to the process that prints the summary.

    There, candidates of which not one was judged are a failure.
    """
    sent: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if sent is not None:
        sent[SENT] = {key: tuple(sums) for key, sums in _judged_here(session.config).items()}
    elif _CANDIDATES in session.config.stash and not _all_sums(session.config) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The sums of a worker of pytest-xdist join the others; a golden that two of them judged counts once."""
    sent = getattr(node, "workeroutput", {}).get(SENT, {})
    node.config.stash[_SUMS].update({key: Sums(*sums) for key, sums in sent.items()})


def _judged_here(config: pytest.Config) -> dict[str, Sums]:
    judged = config.stash[_JUDGED]
    return _sums(judged) if judged else {}


def _all_sums(config: pytest.Config) -> dict[str, Sums]:
    return config.stash[_SUMS] | _judged_here(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> Generator[None]:
    """Last of all the diagnosis: which mistake, at which ops, what to do, a line a case, and the names of red tests.

    With -v, or a --tb of one's own, each red test is shown as well; without, those that are red by a judged golden are
    named alone, and those beside them that judge none are counted.
    """
    sums = _all_sums(config)
    failed = list(terminalreporter.stats.get("failed", ()))
    folded: list[Any] = []
    if any(case.red for case in sums.values()) and not config.get_verbosity() > 0:
        folded = [report for report in failed if _is(report, ITSELF, BESIDE)]
    if folded and config.getoption("tbstyle") == "auto":
        terminalreporter.stats["failed"] = [report for report in failed if report not in folded]
        yield
        terminalreporter.stats["failed"] = failed
    else:
        folded = []
        yield
    if sums or config.stash.get(_CANDIDATES, None) is not None:
        terminalreporter.section("parity")
        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        red = [] if interrupted else [case for case in sums.values() if case.red]
        downstream = terminalreporter.stats.get("downstream", ())
        for line in _parity_section(config, sums, red, _Reports(failed, folded, downstream)):
            terminalreporter.write_line(line)


class _Reports(NamedTuple):
    """pytest's reports of red tests: all of them, those of them that it does not show, and the downstream ones."""

    failed: Collection[Any]
    folded: Collection[Any]
    downstream: Collection[Any]


def _parity_section(
    config: pytest.Config, sums: dict[str, Sums], red: Collection[Sums], reports: _Reports
) -> Iterator[str]:
    every = config.get_verbosity() > 0
    if red:
        yield from _diagnosis(red, config.getoption("parity_budget"), config.getoption("parity_candidate"), every=every)
    if every:
        yield from (f"{report.nodeid}: {report.longrepr}" for report in reports.downstream)
    else:
        itself = [report.nodeid for report in reports.folded if _is(report, ITSELF)]
        yield from red_tests(itself, [report.nodeid for report in reports.downstream])
    if red:
        yield from beside([report.nodeid for report in reports.failed if _is(report, BESIDE)])
    yield from comparisons(sums)
    if (delivered := config.stash.get(_CANDIDATES, None)) is not None:
        yield from deliveries(sums, delivered)


def _diagnosis(red: Collection[Sums], budget: float, folder: Path | None, *, every: bool) -> Iterator[str]:
    """What is wrong and what to run next, then a line a case; on GitHub also annotations."""
    from qwen3_golden.errors import printable
    from qwen3_parity.folder.diagnose import IN_ALL, Red, diagnose_cases
    from qwen3_parity.judge.next_command import diagnose_command
    from qwen3_parity.report import closing

    cases = [Red(case.case, case.golden, case.candidate, case.alone, case.compared) for case in red]
    diagnosed, _ = diagnose_cases(cases, partial=True, whole=IN_ALL, deadline=monotonic() + budget)
    mistakes = closing.in_words({case.case: case.golden for case in cases}, diagnosed)
    known = {case for mistake in mistakes[:1] if mistake.name for case in mistake.cases}
    first = next((case for case in red if case.case in known), next(iter(red)))
    yield from map(printable, closing.diagnosis(mistakes, len(red), every=every))
    yield (
        f"next: qwen3-parity diagnose {folder}"
        if folder
        else f"next: {diagnose_command(first.golden, first.candidate)}"
    )
    yield from map(printable, closing.cases({case.case: case.red for case in red}, mistakes, every=every))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        yield from closing.github(mistakes)
