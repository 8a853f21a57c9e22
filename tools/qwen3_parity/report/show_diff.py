"""Two recordings of a case side by side, tap by tap, for a person and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qwen3_golden import Recording, Tensor, pb, place, selected
from qwen3_parity.judge.budgets import percent
from qwen3_parity.judge.differences import Differences, differences
from qwen3_parity.judge.plain import plain
from qwen3_parity.judge.scope import Scope
from qwen3_parity.judge.spoken import as_filed, spoken
from qwen3_parity.judge.verdict import Verdict, Verdicts
from qwen3_parity.report.verdicts import of_budget


@dataclass(frozen=True)
class Side:
    """What a recording has at a tap; `rms` is of the finite elements, None where there are none."""

    shape: tuple[int, ...]
    dtype: str
    rms: float | None


@dataclass(frozen=True)
class Row:
    """A tap at a step on both sides, None on one that lacks it. `max` is the largest difference among judged elements,
    `share` that of the budget; None where nothing was compared. `elements` only where they were asked for."""

    name: str
    step: int
    actual: Side | None
    expected: Side | None
    max: float | None = None
    share: float | None = None
    elements: Differences | None = None


def rows(golden: Recording, candidate: Recording, verdicts: Verdicts, taps: Sequence[str] = ()) -> list[Row]:
    """The taps of both that a glob of `taps` selects, in the golden's order; with globs their elements as well."""
    judged = {(tap.name, tap.step): tap for tap in verdicts.taps}
    keys = dict.fromkeys([tensor.key for tensor in golden] + [tensor.key for tensor in candidate])
    scope = Scope(golden)
    return [
        _row(golden.get(*key), candidate.get(*key), key, judged.get(key), scope, elements=bool(taps), golden=golden)
        for key in keys
        if selected(key[0], as_filed(taps))
    ]


def _row(
    expected: Tensor | None,
    actual: Tensor | None,
    key: tuple[str, int],
    verdict: Verdict | None,
    scope: Scope,
    *,
    elements: bool,
    golden: Recording,
) -> Row:
    metrics = None if verdict is None else verdict.metrics
    difference = None
    if elements and expected and actual and expected.array.shape == actual.array.shape:
        tap_place = place(key[0], golden.case.config.num_hidden_layers)
        allowed = None if verdict is None or verdict.exact else 0.0
        difference = differences(actual, expected, scope.judged(expected, tap_place), allowed)
    share = None if verdict is None or metrics is None else verdict.share
    return Row(*key, _side(actual), _side(expected), None if metrics is None else metrics.max, share, difference)


def _side(tensor: Tensor | None) -> Side | None:
    if tensor is None:
        return None
    values = tensor.values().astype(np.float64)
    finite = values[np.isfinite(values)]
    rms = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else None
    return Side(tuple(tensor.array.shape), pb.DType.Name(tensor.info.dtype).lower(), rms)


def beside(verdicts: Verdicts) -> str:
    """How many taps stand beside each other and the farthest of them; which side is wrong is another's question."""
    line = f"{verdicts.case.name}: {verdicts.compared} of {verdicts.of} taps beside each other"
    if verdicts.worst is not None:
        line += f", worst {of_budget(verdicts.worst.share)} at {verdicts.worst.where}"
    return spoken(f"{line}; what is wrong is said by qwen3-parity check", verdicts.case)


def terminal(compared: Sequence[Row], verdicts: Verdicts) -> RenderableType:
    """A row for each tap, where both sides are told apart by " | " if they differ; the candidate's comes first."""
    table = Table("tap", "step", "dtype", "shape", "rms", "largest difference", "share", box=None)
    table.columns[0].no_wrap = True
    compared = spoken(list(compared), verdicts.case)
    for row in compared:
        share = "–" if row.share is None else percent(row.share)
        largest = "–" if row.max is None else f"{row.max:.3g}"
        cells = [row.name, str(row.step), *map(_both, *map(_cells, (row.actual, row.expected))), largest, share]
        table.add_row(*cells, style="red" if row.share is not None and row.share > 1 else None)
    lines = [Text(line) for row in compared if row.elements is not None for line in _elements(row)]
    head = Text(f"{beside(verdicts)}\ncandidate | golden: {verdicts.candidate} | {verdicts.golden}")
    return Group(head, table, *lines)


def _cells(side: Side | None) -> tuple[str, str, str]:
    if side is None:
        return "not there", "not there", "not there"
    return side.dtype, "×".join(map(str, side.shape)) or "scalar", "–" if side.rms is None else f"{side.rms:.6g}"


def _both(actual: str, expected: str) -> str:
    return actual if actual == expected else f"{actual} | {expected}"


def _elements(row: Row) -> Iterator[str]:
    difference = row.elements
    if difference is None or difference.first is None:
        yield f"{row.name} (step {row.step}): every judged element is equal"
        return
    yield f"{row.name} (step {row.step}): {difference.count} of {difference.of} judged elements differ"
    yield f"  first: {difference.first}"
    yield f"  worst: {difference.worst}"


def to_json(compared: Sequence[Row], verdicts: Verdicts) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers."""
    head = {"case": verdicts.case.name, "golden": verdicts.golden, "candidate": verdicts.candidate}
    taps = [{"name": row.name, "place": spoken(row.name, verdicts.case)} | plain(asdict(row)) for row in compared]
    return head | {"taps": taps}
