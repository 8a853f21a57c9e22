"""With --candidate, recordings made elsewhere are judged, and nothing of ours is run."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--candidate") is None:
        return
    here = [item for item in items if "/parity/" in item.nodeid or item.nodeid.startswith("parity/")]
    ours = [item for item in here if "judge" not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=ours)
    items[:] = [item for item in items if item not in set(ours)]
