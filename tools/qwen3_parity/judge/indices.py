"""Indices in words."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 6


def ranges(indices: Iterable[int], to: str = "–", most: int | None = _MOST) -> str:
    """[4, 5, 6, 0, 2] as "4–6, 0, 2": neighbours that go on together, at most so many of these and then "…"."""
    runs: list[list[int]] = []
    for index in map(int, indices):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}{to}{run[-1]}" for run in runs]
    return ", ".join(texts[:most]) + (" …" if len(runs) > len(texts[:most]) else "")
