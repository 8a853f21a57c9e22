"""Progress of a command whose standard error is a file."""

from __future__ import annotations

import pytest

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
