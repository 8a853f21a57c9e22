"""Progress: lines with a rate where standard error is a file, a bar in a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from qwen3_parity.report import progress


def test_a_file_is_told_what_takes_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    with progress.progress("reading") as update:
        update("encoder.norm\x1b[2J")
    assert capsys.readouterr().err == "encoder.norm\\x1b[2J\n"


def test_a_file_hears_nothing_of_what_is_done_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress("reading") as update:
        update("encoder.norm")
    assert capsys.readouterr().err == ""


def test_a_count_says_how_much_of_how_much_and_how_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100, 2))
    monkeypatch.setattr(progress, "_now", lambda: float(next(clock)))
    now = progress.Progress("judging", "cases", lambda _: None)
    now.count(0, 105)
    now.count(12, 105)
    assert str(now) == "judging: 12 of 105 cases, 6 a second"


def test_a_place_has_its_layers_left_open_as_in_reports() -> None:
    now = progress.Progress("what is otherwise at model.layers.{layer}.mlp", "", lambda _: None)
    assert str(now) == "what is otherwise at model.layers.*.mlp"


def test_what_begins_anew_has_a_rate_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 100.0, 101.0])
    monkeypatch.setattr(progress, "_now", lambda: next(clock))
    now = progress.Progress("reading", "tensors", lambda _: None)
    now.count(30, 30)
    now.count(0, 30)
    now.count(5, 30)
    assert now.counted == "5 of 30 tensors, 5 a second"


def test_silence_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    with progress.progress("reading", "cases", silent=True) as update:
        update("encoder.norm")
        update.count(1, 2)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_with_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr(progress, "console", lambda *, stderr: screen)
    with progress.progress("judging", "cases") as update:
        update("judging [bold]x\x1b[2J")
        update.count(3, 7)
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "judging [bold]x\\x1b[2J" in shown and "3 of 7 cases" in shown
