"""What the draws of bugs share: a process that outlives no row, rows by name, files that are gone on with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from detection.draws import alternative, by_level, chosen, line, read_results, run_each, says, times, write_results
from qwen3_golden import ParityError


@dataclass(frozen=True)
class Outcome:
    name: str
    level: str = "all"


ROWS = [Outcome("A1"), Outcome("A2", "logits"), Outcome("B1", "logits")]


def works() -> str:
    return "done"


def raises() -> str:
    raise ZeroDivisionError("by 0")


def dies() -> str:
    os._exit(3)


def hangs() -> str:
    time.sleep(3600)
    return "never"


def returns_what_cannot_be_sent() -> str:
    return lambda: None  # type: ignore[return-value]


def called(item: Callable[[], str]) -> str:
    return item()


def failed(item: Callable[[], str], failure: str) -> str:
    return f"{item.__name__}: {failure}"


def test_items_behind_one_that_raises_or_dies_go_on() -> None:
    items = [works, raises, works, dies, works, returns_what_cannot_be_sent, works]
    first, second, third, fourth, fifth, sixth, last = run_each(called, items, failed, 600.0)
    assert first == third == fifth == last == "done"
    assert second == "raises: ZeroDivisionError: by 0" and fourth == "dies: the process died"
    assert sixth.startswith("returns_what_cannot_be_sent: ")


def test_an_item_that_hangs_is_over_at_the_limit() -> None:
    assert list(run_each(called, [hangs, hangs], failed, 0.2)) == ["hangs: time limit"] * 2


def test_a_process_takes_up_item_after_item() -> None:
    first, second = run_each(lambda _: str(os.getpid()), "ab", lambda *_: "", 600.0)
    assert first == second != str(os.getpid())


def test_who_stops_early_leaves_no_process(tmp_path: Path) -> None:
    def waits(item: str) -> int:
        if item == "second":
            time.sleep(3600)
        return os.getpid()

    results = run_each(waits, ["first", "second"], lambda *_: 0, 600.0)
    process = next(results)
    results.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_rows_are_chosen_by_globs_and_a_glob_of_none_is_refused() -> None:
    assert chosen(ROWS, ["A*"], "", expected="", next_step="") == ROWS[:2]
    assert chosen(ROWS, [], "", expected="", next_step="") == ROWS
    with pytest.raises(ParityError, match="no such row"):
        chosen(ROWS, ["C*"], "no such row", expected="", next_step="")


def test_every_expression_of_an_alternative_must_match() -> None:
    alternatives = [alternative("keys? & scaled"), alternative("factor")]
    assert says(alternatives, "a KEY is scaled") and says(alternatives, "by a factor")
    assert not says(alternatives, "a key is moved") and not says([], "a key is scaled")


def test_results_are_read_as_they_were_written_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    assert read_results(path, lambda values: Outcome(**values), "rows") == []
    write_results(path, ROWS)
    assert read_results(path, lambda values: Outcome(**values), "rows") == ROWS
    for text in ("", "{", "3", "[3]", '{"name": 1}', '[{"other": 1}]', "\udcff"):
        path.write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(ParityError, match="these are no rows"):
            read_results(path, lambda values: Outcome(**values), "rows")


def test_a_line_has_what_is_to_be_noted_alone() -> None:
    states, notes = {"caught": True, "right": False}, {"innocent": "", "failure": "broke"}
    assert line("X", states, notes, [(False, "norm: eps")]) == "X: caught, not right, failure: broke\n    - norm: eps"


def test_levels_have_an_order_and_times_a_worst() -> None:
    assert list(by_level(ROWS[::-1])) == [("all", ROWS[:1]), ("logits", [ROWS[2], ROWS[1]])]
    assert times([1.0, 2.0, 9.0]) == ("2.0", "9.0") and times([]) == ("0.0", "0.0")
