"""What stands in a narrow terminal is whole: names, numbers, and commands that somebody copies."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from qwen3_parity.cli import main
from qwen3_parity.report import diagnoses, terminal

COMMAND = "next: qwen3-parity diagnose --model /srv/models/qwen3 /srv/recordings/decoder/plain.pb"


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration's recording, whose rotations are wrong."""
    folder = tmp_path_factory.mktemp("narrow") / "demo"
    assert CliRunner().invoke(main, ["demo", "--out", str(folder)]).exit_code == 0
    return folder / "decoder" / "plain.pb"


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    monkeypatch.setattr(terminal, "_WIDTH_OF_A_LOG", request.param)
    return int(request.param)


def printed(*words: object) -> list[str]:
    lines = CliRunner().invoke(main, list(map(str, words))).output.splitlines()
    assert lines
    return lines


@pytest.mark.parametrize("columns", [80], indirect=True)
@pytest.mark.parametrize("verb", ["check", "diagnose"])
def test_an_answer_fits_a_terminal_of_80_columns(verb: str, wrong: Path, columns: int) -> None:
    lines = printed(verb, wrong)
    (head,) = (number for number, line in enumerate(lines) if line.startswith(" tap  "))
    rows = lines[head + 1 :]
    assert len(rows) > 10 and max(map(len, rows)) <= columns
    assert not [line for line in rows if "…" in line and not line.startswith(" … and ")]
    assert all(re.match(r" \S+ +\d+  +", line) for line in rows[:10])


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("columns", [40, 80], indirect=True)
@pytest.mark.parametrize("words", [("check", "-v"), ("diagnose",), ("show",)], ids=" ".join)
def test_no_name_and_no_number_is_cut_however_narrow_it_is(words: tuple[str, ...], wrong: Path, columns: int) -> None:
    rows = [line for line in printed(*words, wrong) if line.startswith(" decoder.layers.0.self_attn.q_rope ")]
    assert rows and all(re.match(r" \S+ +\d  +", line) and "…" not in line for line in rows)


@pytest.mark.parametrize("columns", [40], indirect=True)
def test_a_command_is_one_line_and_a_sentence_wraps(columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "every op that could be judged alone is right, and so is what is behind it"
    terminal.show([Group(Text(f"{sentence}\n{COMMAND}"))])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == COMMAND and len(lines) == 3 and max(map(len, lines[:-1])) <= columns


@pytest.mark.parametrize("columns", [60], indirect=True)
def test_a_sentence_in_a_table_wraps_and_the_names_beside_it_do_not(
    columns: int, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table("case", "what it shows", box=None)
    table.add_row("decoder/plain_two_rows_of_one", "one sentence that is longer than what remains of the line " * 2)
    terminal.show([table])
    lines = capsys.readouterr().out.splitlines()
    assert "decoder/plain_two_rows_of_one" in lines[1] and len(lines) > 3 and max(map(len, lines)) <= columns


def test_a_table_without_a_row_is_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show([Table("tap", "step", box=None)])
    assert capsys.readouterr().out.split() == ["tap", "step"]


def test_places_with_the_same_mistake_are_said_once_and_each_by_itself_where_everything_is_asked_for(
    seeded: Any,
) -> None:
    """Queries and keys of two layers are rotated alike."""
    console = Console(width=200)
    with console.capture() as text:
        console.print(diagnoses.terminal(seeded.diagnosis))
    said = text.get()
    assert "2 places are wrong on their own inputs, all by one mistake" in said
    assert said.count("rope.interleaved: ") == 1
    assert "  the same at 1 more place, 15 of 15 taps: decoder.layers.*.self_attn.k_rope" in said
    assert "decoder.layers.*.self_attn.q_rope and 1 more: rope.interleaved" in diagnoses.verdict(seeded.diagnosis)
    with console.capture() as text:
        console.print(diagnoses.terminal(seeded.diagnosis, every=True))
    assert text.get().count("rope.interleaved: ") == 2


def test_places_that_are_not_explained_wholly_by_the_same_stand_by_themselves(seeded: Any) -> None:
    first, second = seeded.diagnosis.faults
    (best, *more) = second.explanations
    partly = replace(second, explanations=[replace(best, whole=best.of - 1), *more])
    said = diagnoses.closing(replace(seeded.diagnosis, faults=[first, partly]))
    assert "all by one mistake" not in said


def test_a_line_that_several_call_is_one_mistake(seeded: Any) -> None:
    first, second = seeded.diagnosis.faults
    faults = list[Any]()
    for fault, callers in ((first, "399"), (second, "345 and 346")):
        (best, *more) = fault.explanations
        says = f"leaves out add of 1, at m.py:148 in forward, called at m.py:{callers}"
        faults.append(replace(fault, explanations=[replace(best, says=says), *more]))
    assert "all by one mistake" in diagnoses.closing(replace(seeded.diagnosis, faults=faults))
