"""Positions and what stands in them, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """Where the content of a slot comes from."""

    where: str
    row: int = -1
    slot: int = -1


def listed_by_row(found: Mapping[int, Sequence[tuple[int, Slot]]], word: str = "slot") -> str:
    """What stands in the slots of each batch row, as "batch row 0: slots 0 to 3 hold …"; the first three rows."""
    return "; ".join(f"batch row {row}: {_text(some, word)}" for row, some in list(found.items())[:3])


def _text(some: Sequence[tuple[int, Slot]], word: str) -> str:
    """Neighbouring slots whose content comes from neighbouring slots in one phrase."""
    runs: list[list[tuple[int, Slot]]] = []
    for at, what in some:
        if runs and _follows(runs[-1], at, what):
            runs[-1].append((at, what))
        else:
            runs.append([(at, what)])
    return ", ".join(_phrase(run, word) for run in runs[:4]) + (" …" if len(runs) > 4 else "")


def _follows(run: Sequence[tuple[int, Slot]], at: int, what: Slot) -> bool:
    last, source = run[-1]
    if last != at - 1 or (source.where, source.row) != (what.where, what.row):
        return False
    step = what.slot - source.slot
    return step in (0, 1) and (len(run) < 2 or step == source.slot - run[-2][1].slot)


def _phrase(run: Sequence[tuple[int, Slot]], word: str) -> str:
    (first, source), (last, end) = run[0], run[-1]
    text = f"{word} {first} holds {source.where}" if first == last else f"{word}s {first} to {last} hold {source.where}"
    if source.slot < 0:
        return text
    slots = f"{word} {source.slot}" if source.slot == end.slot else f"{word}s {source.slot} to {end.slot}"
    return f"{text} {slots} of batch row {source.row}"
