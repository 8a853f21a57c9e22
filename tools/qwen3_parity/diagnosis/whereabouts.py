"""Where a fault is: which layers and steps, and which rows, heads, positions or channels of the tap carry it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.replay import OpVerdict
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.judged import Judged

_LAYER = re.compile(r"\.layers\.(\d+)\.")


def whereabouts(fault: Fault, worst: Judged) -> str:
    """In one line: layers and steps unless it is all of them, then the axes along which the worst tap is part right."""
    parts = [*among("layer", fault, _layer), *among("step", fault, lambda one: one.step)]
    judged, axes = worst.evidence.judged, worst.evidence.site.place.axes
    if worst.cells.any() and not worst.cells[judged].all():
        parts += carried(worst.cells, judged, axes)
    return ", ".join(parts)


def carried(cells: Array, judged: Array, axes: Sequence[str]) -> list[str]:
    """The axes along which only some indices are wrong, as "heads 1, 3–4"."""
    found = []
    for axis, name in enumerate(axes[: cells.ndim]):
        across = tuple(other for other in range(cells.ndim) if other != axis)
        bad, of = np.flatnonzero(cells.any(axis=across)), np.flatnonzero(judged.any(axis=across))
        if len(bad) < len(of):
            found.append(f"{name} {ranges(bad)} of {cells.shape[axis]}")
    return found


def ranges(indices: Iterable[int]) -> str:
    """[0, 1, 2, 5] as "0–2, 5"; a long list is cut."""
    runs: list[list[int]] = []
    for index in map(int, indices):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    return ", ".join(texts[:6]) + (" …" if len(texts) > 6 else "")


def _layer(verdict: OpVerdict) -> int:
    found = _LAYER.search(verdict.name)
    return int(found.group(1)) if found else 0


def among(word: str, fault: Fault, number: Callable[[OpVerdict], int]) -> list[str]:
    """The layers or steps that are wrong, unless it is all of them."""
    bad = sorted({number(one) for one in fault.wrong})
    every = {number(one) for one in (*fault.wrong, *fault.right)}
    if len(bad) == len(every):
        return []
    return [f"{word}{'s' if len(bad) > 1 else ''} {ranges(bad)} of {len(every)}"]
