"""A killed process leaves a file or a set of files as it was or as it should be, and the next one cleans up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from qwen3_golden import whole
from qwen3_golden.whole import PENDING, change_together, finish_change, temporary, write_whole

OLD: dict[str, str | bytes | None] = {"cases/a.pb": b"old a", "cases/b.pb": b"old b", "MANIFEST": "old"}
CHANGE: dict[str, str | bytes | None] = {
    "cases/a.pb": b"new a",
    "cases/b.pb": None,
    "new/c.pb": b"c",
    "MANIFEST": "new",
}
NEW = {"cases/a.pb": b"new a", "new/c.pb": b"c", "MANIFEST": b"new"}


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it but what would run anyway."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    change_together(tmp_path, OLD)
    return tmp_path


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def before() -> dict[str, bytes]:
    return {name: one.encode() if isinstance(one, str) else one for name, one in OLD.items() if one is not None}


def test_a_set_changes_as_one(root: Path) -> None:
    assert files(root) == before()
    change_together(root, CHANGE)
    assert files(root) == NEW


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every call of the file system counts; the one of this number does not come back, nor does any after it."""
    calls = [0]

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            if calls[0] >= step:
                raise Killed
            return real(*args, **kwargs)

        return call

    for name in ("open", "replace", "unlink", "mkdir"):
        monkeypatch.setattr(Path, name, dying(getattr(Path, name)))
    monkeypatch.setattr(whole.os, "fsync", dying(os.fsync))
    monkeypatch.setattr(whole.shutil, "rmtree", dying(whole.shutil.rmtree))
    return calls


def test_a_change_that_is_killed_anywhere_is_finished_or_undone_by_the_next(tmp_path: Path) -> None:
    outcomes = set()
    for step in range(1, 60):
        root = tmp_path / str(step)
        root.mkdir()
        change_together(root, OLD)
        with pytest.MonkeyPatch.context() as patches:
            calls = killed_at(step, patches)
            with suppress(Killed):
                change_together(root, CHANGE)
        finish_change(root)
        assert files(root) in (before(), NEW), f"killed at call {step}"
        outcomes.add(tuple(files(root)))
        if calls[0] < step:
            break
    else:
        pytest.fail("no run came to its end")
    assert len(outcomes) == 2 and step > 15


def test_a_kill_in_the_middle_of_the_renames_is_carried_out_by_the_next(root: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from qwen3_golden import whole; real = Path.replace; n = [0]\n"
        "def replace(self, to):\n    n[0] += 1\n    n[0] == 3 and os.kill(os.getpid(), 9)\n    return real(self, to)\n"
        "Path.replace = replace\n"
        f"whole.change_together(Path(sys.argv[1]), {CHANGE!r})"
    )
    done = subprocess.run([sys.executable, "-c", code, str(root)], check=False, timeout=120)
    assert done.returncode == -9 and (root / PENDING).is_dir()
    assert files(root).items() & {("cases/a.pb", b"new a"), ("MANIFEST", b"old")}, "half of it is there"
    finish_change(root)
    assert files(root) == NEW


def test_a_file_whose_writing_fails_is_what_it_was_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_whole(path, "old")
    with pytest.MonkeyPatch.context() as patches:

        def full(_file: int) -> None:
            raise OSError(28, "No space left on device")

        patches.setattr(whole.os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_whole(path, "new")
    assert files(tmp_path) == {"report.html": b"old"}


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(60)
    left, living = (tmp_path / f".report.html.{pid}-0a0a.partial" for pid in (gone.pid, os.getpid()))
    left.touch()
    living.touch()
    write_whole(tmp_path / "report.html", "new")
    assert sorted(files(tmp_path)) == [living.name, "report.html"]


def test_a_pipe_is_written_straight_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "verdicts")
        assert os.read(reader, 100) == b"verdicts"
    finally:
        os.close(reader)
    assert pipe.is_fifo() and [one.name for one in tmp_path.iterdir()] == ["pipe"]


def test_what_is_no_file_is_not_renamed_onto(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no file may take its place"):
        temporary(pipe)
