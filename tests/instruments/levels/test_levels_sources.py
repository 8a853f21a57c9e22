"""Bugs of every kind at the levels of recording: each has rows of its own, with answers that somebody wrote down."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from detection.kernels import catalogue, is_open
from detection.levels import command, measure
from detection.levels.command import levels, listed
from detection.levels.measure import Row
from detection.levels.sources import Bug, chosen
from detection.mutants.isolated import golden_of
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.mistakes.ranks import FITTED, PLAIN, Rank


class InProcess:
    """A pool of processes that has none."""

    Pool = lambda *_, **__: nullcontext(SimpleNamespace(imap_unordered=map))  # noqa: E731


def rows(out: Path, *arguments: str) -> list[dict[str, Any]]:
    """What the command writes of some bugs."""
    done = CliRunner().invoke(levels, [*arguments, "--json", str(out)])
    assert done.exit_code == 0, done.output
    written: list[dict[str, Any]] = json.loads(out.read_text())
    return written


@pytest.mark.slow
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
    written = rows(tmp_path / "rows.json", glob, "--of", source, "--level", "all", "--level", "modules")
    assert {entry["of"] for entry in written} == {source} and {entry["level"] for entry in written} == {
        "all",
        "modules",
    }
    assert [(entry["caught"], entry["first"], entry["innocents"], entry["failure"]) for entry in written] == [
        (True, True, [], "") for _ in written
    ]


@pytest.mark.slow
def test_every_so_manieth_bug_alone_is_run(tmp_path: Path) -> None:
    written = rows(
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
    assert len({entry["bug"] for entry in written}) == 1


@pytest.mark.slow
def test_a_draw_is_that_of_its_seed() -> None:
    drawn, again, differently = (chosen("kernels", ("kernel/*",), draw=9, seed=seed) for seed in (1, 1, 2))
    assert drawn == again != differently and len(set(drawn)) == 9 and set(drawn) <= set(chosen("kernels", ()))


def test_rows_are_kept_as_they_come_and_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str, **_: Any) -> list[Row]:
        if name == "two":
            raise KeyboardInterrupt
        return [Row(name, "all", caught=True)]

    def go_on(name: str, **_: Any) -> list[Row]:
        return [Row(name, "all", caught=True, said=(("norm.eps",),))]

    out = tmp_path / "rows.json"
    monkeypatch.setattr(command, "chosen", lambda *_: ["one", "two"])
    monkeypatch.setattr(command.multiprocessing, "get_context", lambda _: InProcess)
    monkeypatch.setattr(command, "measured", interrupted)
    CliRunner().invoke(levels, ["--level", "all", "--json", str(out)])
    assert [entry["bug"] for entry in json.loads(out.read_text())] == ["one"]
    monkeypatch.setattr(command, "measured", go_on)
    assert [(entry["bug"], entry["said"]) for entry in rows(out, "--level", "all")] == [
        ("one", []),
        ("two", [["norm.eps"]]),
    ]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("text", ["", "{}x", "[1]", '[{"of": "mutants"}]'])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    out.write_text(text)
    done = CliRunner().invoke(levels, ["kernel/norm-one-plus-weight", "--of", "kernels", "--json", str(out)])
    assert done.exit_code == 2 and "no rows of levels" in done.output and out.read_text() == text


def test_bugs_without_such_a_name_are_refused() -> None:
    done = CliRunner().invoke(levels, ["kernel/nothing", "--of", "kernels"])
    assert done.exit_code == 2 and "no bug has such a name" in done.output


def test_a_kernel_bug_of_the_closed_half_is_not_listed() -> None:
    names = [kernel.name for kernel in catalogue()]
    shown = [name for name in names if listed("kernels", Row(name, "layer", caught=True))]
    assert shown == [name for name in names if is_open(name)]
    assert listed("mutants", Row(next(name for name in names if not is_open(name)), "layer", caught=True))


@pytest.mark.parametrize(("rank", "answers"), [(PLAIN, {"norm.eps"}), (FITTED, set())])
def test_what_is_fitted_to_every_tap_is_no_answer_to_a_mechanical_change(
    rank: Rank, answers: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Explanation("norm.eps", "", "", "decoder.norm", 0, 1, 0, 1, 0, rank=rank)
    diagnosis = SimpleNamespace(faults=[Explained(Fault("decoder.norm"), "", [said])], misplaced=[])
    monkeypatch.setattr(measure, "diagnose", lambda *_: diagnosis)
    golden = golden_of("decoder/plain")
    assert measure._with_answers(Bug("change", golden, golden)).named == answers
