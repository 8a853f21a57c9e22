"""With --parity-candidate, recordings made elsewhere are judged, and nothing of ours is run."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from qwen3_parity.plugin import BESIDE, DOWNSTREAM, ITSELF

HERE = Path(__file__).resolve().parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's options without their prefix, where this folder is named on the command line."""
    group = parser.getgroup("qwen3-parity")
    group.addoption("--partial", action="store_true", dest="parity_partial", help="as --parity-partial")
    group.addoption(
        "--backend",
        dest="parity_backend",
        default="eager",
        choices=["eager", "sdpa", "flex"],
        help="as --parity-backend",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("parity_candidate") is None:
        return
    here = [item for item in items if HERE in item.path.parents]
    ours = [item for item in here if "judge" not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=ours)
    items[:] = [item for item in items if item not in set(ours)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """These tests alone are too many for a line a file; as with pytest-xdist there are dots."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (
        reporter is not None
        and session.config.get_verbosity() == 0
        and all(HERE in i.path.parents for i in session.items)
    ):
        reporter.showfspath = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that runs our implementation in another way is red beside those of the goldens."""
    report = yield
    known = {tuple(entry) for entry in report.user_properties}
    if report.failed and not known & {ITSELF, DOWNSTREAM}:
        report.user_properties.append(BESIDE)
    return report
