"""Bugs of every kind at the levels of recording: each has rows of its own, with answers that somebody wrote down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from detection.kernels import catalogue, is_open
from detection.levels.command import levels, listed
from detection.levels.measure import Row


def rows(out: Path, *arguments: str) -> list[dict[str, Any]]:
    """What the command writes of some bugs."""
    done = CliRunner().invoke(levels, [*arguments, "--json", str(out)])
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(out.read_text())
    return found


@pytest.mark.parametrize(
    ("source", "glob"),
    [
        ("kernels", "kernel/norm-one-plus-weight"),
        pytest.param("mechanical", "norm.py:*variance + self.variance_epsilon → *", marks=pytest.mark.slow),
        pytest.param("derived", "rms_norm norm.no_weight", marks=pytest.mark.slow),
    ],
)
def test_a_bug_of_each_kind_is_caught_and_named_with_all_and_with_some_taps(
    source: str, glob: str, tmp_path: Path
) -> None:
    found = rows(tmp_path / "rows.json", glob, "--of", source, "--level", "all", "--level", "modules")
    assert {one["of"] for one in found} == {source} and {one["level"] for one in found} == {"all", "modules"}
    assert [(one["caught"], one["first"], one["innocents"], one["failure"]) for one in found] == [
        (True, True, [], "") for _ in found
    ]


def test_every_so_manieth_bug_alone_is_run(tmp_path: Path) -> None:
    some = rows(
        tmp_path / "rows.json",
        "kernel/*-one-*",
        "kernel/embedding-*",
        "--of",
        "kernels",
        "--every",
        "9",
        "--level",
        "all",
    )
    assert len({one["bug"] for one in some}) == 1


def test_bugs_without_such_a_name_are_refused() -> None:
    done = CliRunner().invoke(levels, ["kernel/nothing", "--of", "kernels"])
    assert done.exit_code == 2 and "no bug has such a name" in done.output


def test_a_kernel_bug_of_the_closed_half_is_not_listed() -> None:
    names = [one.name for one in catalogue()]
    shown = [name for name in names if listed("kernels", Row(name, "layer", caught=True))]
    assert shown == [name for name in names if is_open(name)]
    assert listed("mutants", Row(next(name for name in names if not is_open(name)), "layer", caught=True))
