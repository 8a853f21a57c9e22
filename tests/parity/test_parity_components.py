"""Whole runs against the goldens, bottom-up: a red component means its own taps, with everything below it green."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen3_golden import place, read
from qwen3_parity.judge.components import COMPONENTS, component_of
from qwen3_parity.plugin import Judge
from qwen3_parity.recording.suite import goldens


def _components(golden: Path) -> set[str]:
    recording = read(golden)
    names = [
        (t.info.name, recording.case.op) for t in recording if not t.info.name.startswith(("input.", "parameter."))
    ]
    return {component_of(name, op) for name, op in names}


GOLDENS = {path: _components(path) for path in goldens()}
PAIRS = [
    pytest.param(component, path, id=f"{component}-{path.parent.name}/{path.stem}")
    for component in COMPONENTS
    for path, present in GOLDENS.items()
    if component in present
]


@pytest.mark.parametrize("golden", [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in GOLDENS])
def test_the_recording_is_complete_and_of_the_same_case(golden: Path, judge: Judge) -> None:
    verdicts = judge(golden)
    assert not verdicts.structural, "\n".join(map(str, verdicts.structural))
    assert verdicts.problems or not verdicts.exit_code, f"{verdicts.word} {verdicts.no_results}"
    assert verdicts.compared > 0


@pytest.mark.parametrize(("component", "golden"), PAIRS)
def test_a_component_is_within_its_budget(component: str, golden: Path, judge: Judge) -> None:
    verdicts = judge(golden)
    own = [tap for tap in verdicts.taps if component_of(tap.name, verdicts.case.op) == component]
    if not own:
        missing = [name for name in verdicts.not_materialised if component_of(name.split(" ")[0]) == component]
        pytest.skip(f"never materialised: {', '.join(missing) or component}")
    failed = [str(tap.problem) for tap in own if tap.problem is not None]
    assert not failed, "\n".join(failed)


def test_every_component_is_shown_by_some_golden() -> None:
    assert set().union(*GOLDENS.values()) == set(COMPONENTS)


def test_every_place_of_the_table_belongs_to_a_component() -> None:
    from qwen3_golden import table

    for row in table():
        if row.op != "input":
            name = row.pattern.replace("{layer}", "0")
            assert place(name) is not None and component_of(name) in COMPONENTS
