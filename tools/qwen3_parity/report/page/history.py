"""How the worst shares went over versions: a file of one JSON object a line, a version a line."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qwen3_golden import ParityError
from qwen3_golden.whole import write_whole
from qwen3_parity.judge.plain import plain
from qwen3_parity.judge.verdict import Verdicts

_SCHEMA = 1


def figures(label: str, results: Sequence[Verdicts]) -> dict[str, Any]:
    """A version's line: by case its verdict, its worst share of a budget and where, and the worst share of each op."""
    cases = {}
    for one in results:
        ops: dict[str, float] = {}
        for tap in one.taps:
            ops[tap.op] = max(ops.get(tap.op, 0.0), tap.share)
        worst = one.worst
        share, where = (0.0, "") if worst is None else (worst.share, worst.where)
        cases[one.case.name] = {"verdict": one.word, "worst": plain(share), "where": where, "ops": plain(ops)}
    return {"schema": _SCHEMA, "label": label, "cases": cases}


def appended(path: Path, label: str, results: Sequence[Verdicts]) -> list[dict[str, Any]]:
    """Every version of a file with this one at the end, and the file written so, whole or not at all.

    A version that is there already has its figures of before replaced, at the end. Raises `ParityError` for a file that
    is no history, and changes nothing then.
    """
    versions = [one for one in _read(path) if one["label"] != label] + [figures(label, results)]
    write_whole(path, "".join(json.dumps(one, allow_nan=False) + "\n" for one in versions))
    return versions


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise _refuse(path, 1, str(error)) from error
    return [_version(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _version(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _refuse(path, number, str(error)) from error
    if not isinstance(found, dict) or found.get("schema") != _SCHEMA:
        raise _refuse(path, number, "another object, or another schema")
    cases = found.get("cases")
    if not isinstance(found.get("label"), str) or not isinstance(cases, dict) or not all(map(_is_case, cases.values())):
        raise _refuse(path, number, "a label or a case that is not as `report --history` writes it")
    return found


def _is_case(case: Any) -> bool:
    if not isinstance(case, dict) or not isinstance(case.get("ops"), dict):
        return False
    texts = isinstance(case.get("verdict"), str) and isinstance(case.get("where"), str)
    return texts and all(map(_is_share, (case.get("worst"), *case["ops"].values())))


def _is_share(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return number or value in ("inf", "nan")


def _refuse(path: Path, number: int, got: str) -> ParityError:
    return ParityError(
        f"{path}, line {number}",
        "this is no history of reports",
        expected=f'a JSON object with "schema": {_SCHEMA}, "label" and "cases", as `report --history` writes them',
        got=got,
        next_step="give another file, or remove the line",
    )
