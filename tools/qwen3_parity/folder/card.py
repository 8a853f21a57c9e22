"""What a folder of recordings reached, as data that anybody can compute again: a card."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date as calendar
from importlib.metadata import version
from math import isclose, isfinite
from pathlib import Path
from typing import Any

from qwen3_golden import ParityError, Recording, read
from qwen3_golden.recording import SCHEMA_MAJOR, SCHEMA_MINOR
from qwen3_golden.regular_file import open_regular
from qwen3_parity.folder.check import Folder, check_folder
from qwen3_parity.folder.levels import reached
from qwen3_parity.judge.by_reference import cases_by_reference
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.text.show import is_tokenization

FORMAT = 1
"""Of the card's JSON."""
_CLOSE = 0.01
"""Of a share: sums of other libraries differ in their last digits."""
_LINE = 200
_LARGEST = 1 << 24
"""Bytes of a card, at most."""
_NAME = re.compile(r"[^\W_]([\w .,:;+/@()-]{0,78}[\w.+)])?")
"""What a name may be, so that on a page it is a name and nothing else: letters, digits and a few signs in one line."""
_NEXT = "write it with: qwen3-parity card FOLDER --date YYYY-MM-DD --out NAME"


def card(
    folder: Path, name: str, date: str, count: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, Any]:
    """The card of a folder: levels, cases with their worst share, versions and the contract's digest; plain JSON.

    Raises `ParityError` for a name that could be read as something else, for what `check_folder` refuses, for the first
    recording that is refused, and for a folder of which nothing was judged.
    """
    if not _NAME.fullmatch(name):
        raise ParityError(
            "--name",
            "a card's name is a name in one line",
            expected="up to 80 letters, digits, spaces and . , : ; + - / @ ( ) _",
            got=ascii(name),
            next_step="give another --name",
        )
    judged = check_folder(folder, count=count)
    if judged.refused:
        raise judged.refused[0]
    recordings = {one.case.name: read(one.candidate) for one in judged.results}
    contracts = [one.contract for one in judged.results if one.contract is not None]
    return {
        "format": FORMAT,
        "name": name,
        "date": date,
        "contract": {
            "digest": " ".join(sorted({one.digest for one in contracts})),
            "edited": sorted({file for one in contracts for file in one.edited}),
            "own_goldens": sorted({one.own_golden for one in contracts if one.own_golden}),
        },
        "judge": {"qwen3-parity": version("qwen3-parity"), "schema": f"{SCHEMA_MAJOR}.{SCHEMA_MINOR}"},
        "producers": _producers(recordings),
        "by_reference": cases_by_reference(judged.results),
        "levels": _levels(judged),
        "cases": {one.case.name: _case(one, recordings[one.case.name]) for one in judged.results},
    }


def _producers(recordings: Mapping[str, Recording]) -> list[dict[str, Any]]:
    """Who made the recordings, with what and where, each once."""
    found: dict[str, dict[str, Any]] = {}
    for one in recordings.values():
        made = one.provenance
        versions = {pair.key: pair.value for pair in made.versions}
        message = {"producer": made.producer, "platform": made.platform, "kernels": made.kernels, "versions": versions}
        found[json.dumps(message, sort_keys=True)] = message
    return [found[key] for key in sorted(found)]


def _case(one: Verdicts, recording: Recording) -> dict[str, Any]:
    return {
        "verdict": one.word,
        "judged": one.judged,
        "compared": one.compared,
        "of": one.of,
        "recording": recording.digest.hex(),
        **_worst(one),
    }


def _worst(one: Verdicts) -> dict[str, Any]:
    """The largest share of a budget, where there are budgets: a tokenizer's stages and copies are equal or not."""
    if one.worst is None or is_tokenization(one):
        return {"worst_share": None, "where": ""}
    share = float(one.worst.share)
    return {"worst_share": float(f"{share:.4g}") if isfinite(share) else "infinite", "where": one.worst.where}


def _levels(folder: Folder) -> dict[str, dict[str, Any]]:
    results = {one.case.name: one for one in folder.results}
    found = {}
    for level in reached(folder):
        names = (*level.parity, *level.red)
        worst = max(names, key=lambda name: results[name].worst.share if results[name].worst else 0.0)  # type: ignore[union-attr]
        found[level.level] = {
            "reached": level.reached,
            "parity": len(level.parity),
            "of": level.of,
            "missing": list(level.missing),
            "red": list(level.red),
            "worst_share": _worst(results[worst])["worst_share"],
            "worst_case": worst,
        }
    return found


def load(path: Path) -> dict[str, Any]:
    """A card from its file. Raises `ParityError` for what is none."""
    try:
        with open_regular(path) as file:
            text = file.read(_LARGEST + 1)
        found = json.loads(text, object_pairs_hook=_once) if len(text) <= _LARGEST else "more than 16 MiB"
    except (OSError, ValueError, RecursionError) as error:
        raise _no_card(path, error) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise _no_card(path, f"format {found.get('format')!a}" if isinstance(found, dict) else type(found).__name__)
    for key, is_right in (("name", _NAME.fullmatch), ("date", _is_date)):
        if not isinstance(found.get(key), str) or not is_right(found[key]):
            raise _no_card(path, f"{key} {found.get(key)!a}")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; raises `ValueError` for a key that it has twice, of which every reader takes another one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key twice in {', '.join(ascii(key) for key, _ in pairs)[:_LINE]}")
    return found


def _is_date(text: str) -> bool:
    try:
        return calendar.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _no_card(path: Path, got: object) -> ParityError:
    return ParityError(
        path, "this is no card", expected=f"JSON of format {FORMAT}, with a name and a date", got=got, next_step=_NEXT
    )


def differences(said: object, now: object, where: str = "") -> Iterator[str]:
    """What a card says otherwise than the one computed now, field by field; shares may differ by a hundredth."""
    if isinstance(said, dict) and isinstance(now, dict):
        for key in (*now, *(key for key in said if key not in now)):
            inner = f"{where}.{key}" if where else str(key)
            if key not in said or key not in now:
                yield f"{inner}: {'only in the card' if key in said else 'not in the card'}"
            else:
                yield from differences(said[key], now[key], inner)
    elif isinstance(said, float) and isinstance(now, float):
        if not isclose(said, now, rel_tol=_CLOSE):
            yield f"{where}: the card says {said!a}, it is {now!a}"
    elif type(said) is not type(now) or said != now:
        yield f"{where}: the card says {said!a}, it is {now!a}"
