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
_NEXT = "write it with: qwen3-parity report FOLDER --format card --date YYYY-MM-DD --out NAME"


def card(
    folder: Path, name: str, date: str, count: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, Any]:
    """The card of a folder: levels, cases with their worst share, versions and the contract's digest; plain JSON.

    Raises `ParityError` for a name that could be read as something else, for what `check_folder` refuses, for the first
    recording that is refused, and for a folder of which nothing was judged.
    """
    if not _NAME.fullmatch(name):
        raise ParityError(
            "--label",
            "a card's name is a name in one line",
            expected="up to 80 letters, digits, spaces and . , : ; + - / @ ( ) _",
            got=ascii(name),
            next_step="give another --label",
        )
    judged = check_folder(folder, count=count)
    if judged.refused:
        raise judged.refused[0]
    recordings = {verdicts.case.name: read(verdicts.candidate) for verdicts in judged.results}
    contracts = [verdicts.contract for verdicts in judged.results if verdicts.contract is not None]
    return {
        "format": FORMAT,
        "name": name,
        "date": date,
        "contract": {
            "digest": " ".join(sorted({contract.digest for contract in contracts})),
            "edited": sorted({file for contract in contracts for file in contract.edited}),
            "own_goldens": sorted({contract.own_golden for contract in contracts if contract.own_golden}),
        },
        "judge": {"qwen3-parity": version("qwen3-parity"), "schema": f"{SCHEMA_MAJOR}.{SCHEMA_MINOR}"},
        "producers": _producers(recordings),
        "by_reference": cases_by_reference(judged.results),
        "levels": _levels(judged),
        "cases": {verdicts.case.name: _case(verdicts, recordings[verdicts.case.name]) for verdicts in judged.results},
    }


def _producers(recordings: Mapping[str, Recording]) -> list[dict[str, Any]]:
    """Who made the recordings, with what and where, each once."""
    producers: dict[str, dict[str, Any]] = {}
    for recording in recordings.values():
        provenance = recording.provenance
        versions = {pair.key: pair.value for pair in provenance.versions}
        message = {
            "producer": provenance.producer,
            "platform": provenance.platform,
            "kernels": provenance.kernels,
            "versions": versions,
        }
        producers[json.dumps(message, sort_keys=True)] = message
    return [producers[key] for key in sorted(producers)]


def _case(verdicts: Verdicts, recording: Recording) -> dict[str, Any]:
    return {
        "verdict": verdicts.word,
        "judged": verdicts.judged,
        "compared": verdicts.compared,
        "of": verdicts.of,
        "recording": recording.digest.hex(),
        **_worst(verdicts),
    }


def _worst(verdicts: Verdicts) -> dict[str, Any]:
    """The largest share of a budget, where there are budgets: a tokenizer's stages and copies are equal or not."""
    if verdicts.worst is None or is_tokenization(verdicts):
        return {"worst_share": None, "where": ""}
    share = float(verdicts.worst.share)
    return {"worst_share": float(f"{share:.4g}") if isfinite(share) else "infinite", "where": verdicts.worst.where}


def _levels(folder: Folder) -> dict[str, dict[str, Any]]:
    results = {verdicts.case.name: verdicts for verdicts in folder.results}
    levels = {}
    for level in reached(folder):
        names = (*level.parity, *level.red)
        worst = max(names, key=lambda name: results[name].worst.share if results[name].worst else 0.0)  # type: ignore[union-attr]
        levels[level.level] = {
            "reached": level.reached,
            "parity": len(level.parity),
            "of": level.of,
            "missing": list(level.missing),
            "red": list(level.red),
            "worst_share": _worst(results[worst])["worst_share"],
            "worst_case": worst,
        }
    return levels


def load(path: Path) -> dict[str, Any]:
    """A card from its file. Raises `ParityError` for what is none."""
    try:
        with open_regular(path) as file:
            text = file.read(_LARGEST + 1)
        loaded = json.loads(text, object_pairs_hook=_once) if len(text) <= _LARGEST else "more than 16 MiB"
    except (OSError, ValueError, RecursionError) as error:
        raise _no_card(path, error) from None
    if not isinstance(loaded, dict) or loaded.get("format") != FORMAT:
        raise _no_card(path, f"format {loaded.get('format')!a}" if isinstance(loaded, dict) else type(loaded).__name__)
    for key, is_right in (("name", _NAME.fullmatch), ("date", _is_date)):
        if not isinstance(loaded.get(key), str) or not is_right(loaded[key]):
            raise _no_card(path, f"{key} {loaded.get(key)!a}")
    return loaded


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; raises `ValueError` for a key that it has twice, of which every reader takes another one."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError(f"a key twice in {', '.join(ascii(key) for key, _ in pairs)[:_LINE]}")
    return members


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
