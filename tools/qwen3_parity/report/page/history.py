"""How the worst shares went over versions: a file of one JSON object a line, a version a line."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qwen3_golden import ParityError
from qwen3_golden.regular_file import open_regular
from qwen3_golden.whole import write_whole
from qwen3_parity.judge.plain import plain
from qwen3_parity.judge.verdict import Verdicts

_SCHEMA = 1
_PATIENCE = 60.0
"""Seconds that one writer waits for the others."""


def figures(label: str, results: Sequence[Verdicts]) -> dict[str, Any]:
    """A version's line: by case its verdict, its worst share of a budget and where, and the worst share of each op."""
    cases = {}
    for verdicts in results:
        ops: dict[str, float] = {}
        for tap in verdicts.taps:
            ops[tap.op] = max(ops.get(tap.op, 0.0), tap.share)
        worst = verdicts.worst
        share, where = (0.0, "") if worst is None else (worst.share, worst.where)
        cases[verdicts.case.name] = {"verdict": verdicts.word, "worst": plain(share), "where": where, "ops": plain(ops)}
    return {"schema": _SCHEMA, "label": label, "cases": cases}


def appended(path: Path, label: str, results: Sequence[Verdicts]) -> list[dict[str, Any]]:
    """Every version of a file with this one at the end, and the file written so, whole or not at all.

    A version that is there already has its figures of before replaced, at the end. Several processes may write at once:
    one waits for the other. Raises `ParityError` for a file that is no history, and changes nothing then.
    """
    added = figures(label, results)
    with _alone(path):
        versions = [version for version in _read(path) if version["label"] != label] + [added]
        write_whole(path, "".join(json.dumps(version, allow_nan=False) + "\n" for version in versions))
    return versions


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """The lock of a history, on the file itself, which is made for it: whoever writes puts another in its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new, until = not path.exists(), time.monotonic() + _PATIENCE
    try:
        while True:
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
            try:
                if _locked(descriptor, path):
                    yield
                    return
            finally:
                os.close(descriptor)  # gives up the lock
            if time.monotonic() > until:
                raise ParityError(
                    path,
                    "another process holds this history",
                    expected=f"its lock within {_PATIENCE:.0f} seconds",
                    got="a lock that stays",
                    next_step="see which process writes it (fuser says so), or give another file",
                )
            time.sleep(0.01)
    finally:
        if new and path.is_file() and not path.stat().st_size:  # nothing was written
            path.unlink(missing_ok=True)


def _locked(descriptor: int, path: Path) -> bool:
    """Whether the lock is ours, and of the file that has the name now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        with open_regular(path) as file:
            lines = file.read().decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise _refuse(path, 1, str(error)) from error
    return [_version(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _version(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        version = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _refuse(path, number, str(error)) from error
    if not isinstance(version, dict) or version.get("schema") != _SCHEMA:
        raise _refuse(path, number, "another object, or another schema")
    cases = version.get("cases")
    if (
        not isinstance(version.get("label"), str)
        or not isinstance(cases, dict)
        or not all(map(_is_case, cases.values()))
    ):
        raise _refuse(path, number, "a label or a case that is not as `report --history` writes it")
    return version


def _is_case(case: Any) -> bool:
    if not isinstance(case, dict) or not isinstance(case.get("ops"), dict):
        return False
    texts = isinstance(case.get("verdict"), str) and isinstance(case.get("where"), str)
    return texts and all(map(_is_share, (case.get("worst"), *case["ops"].values())))


def _is_share(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return number or value in ("inf", "nan")


def _refuse(path: Path, number: int, got: str) -> ParityError:
    return ParityError(
        f"{path}, line {number}",
        "this is no history of reports",
        expected=f'a JSON object with "schema": {_SCHEMA}, "label" and "cases", as `report --history` writes them',
        got=got,
        next_step="give another file, or remove the line",
    )
