"""A constant factor, a factor for each channel, head, position, row or part of one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import BY_CHANCE, explained, floats, numbers, worth_saying
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.rows import rows_sum
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.mistakes.factors import named_by

_FEWEST = 3
"""Cells that tell a factor."""
_LOGARITHMS = 65
"""Counts, of ranks say, whose logarithm a number may be off by."""
_MOST_PARTS = 8
_SHOWN = 6


def factor(tap: WrongTap) -> Finding | None:
    """The wrong cells are the right ones times one number."""
    usable, ratio = floats(tap), factor_of(tap)
    if usable is None or ratio is None:
        return None
    actual, truth, _ = usable
    if ratio == 0:
        return None if actual[tap.judged].any() else Finding("fit.factor", "it is all zero", 1.0)
    words = named_by(ratio, tap.config)
    says = f"it is {ratio:.7g} × what it should be" + (f", that is {words}" if words else _more(tap))
    weight = explained(tap, ratio * truth, ratio, fitted=0 if words else 1)
    return worth_saying("fit.factor", says, weight, 0.9 if tap.judged.sum() > 1 else BY_CHANCE)


def _more(tap: WrongTap) -> str:
    """Of a single number also by how much it is larger: a loss with log 2 added."""
    if tap.truth.size != 1:
        return ""
    more = float((tap.actual - tap.truth).ravel()[0])
    of = next((n for n in range(2, _LOGARITHMS) if abs(abs(more) - math.log(n)) <= max(tap.limits.max(), 1e-9)), 0)
    return f", or {abs(more):.7g}{f' (log {of})' if of else ''} {'more' if more > 0 else 'less'}"


def factor_of(tap: WrongTap) -> float | None:
    """The number that brings the wrong cells closest to what was recorded, below 1e-9 none at all; None without one."""
    usable = floats(tap)
    if usable is None:
        return None
    actual, truth, cells = usable
    size = float(np.vdot(truth[cells], truth[cells]))
    ratio = float(np.vdot(truth[cells], actual[cells])) / size if size else 0.0
    return (ratio if abs(ratio) >= 1e-9 else 0.0) if size else None


def from_tap_to_tap(finding: Finding, tap: WrongTap, alike: Sequence[WrongTap]) -> Finding:
    """A factor that is another one at every wrong tap is no constant."""
    rest = [(further, factor(further), factor_of(further)) for further in alike if further.key != tap.key]
    rest = [row for row in rest if row[1] is None or row[1].says != finding.says]
    if not rest:
        return finding
    listed = ", ".join(
        f"{'none' if fits is None or by is None else f'{by:.4g}'} ({further.name}, step {further.step})"
        for further, fits, by in rest[:_SHOWN]
    )
    more = f" and {len(rest) - _SHOWN} more" if len(rest) > _SHOWN else ""
    says = f"{finding.says}; at other wrong taps it is no such number: {listed}{more}"
    return replace(finding, says=says, weight=0.5)


@dataclass(frozen=True)
class Factors:
    """One number for each group of cells, of the tensor's shape, with how well it is known, and how many there are."""

    values: Array
    tolerances: Array
    count: int
    split: tuple[int, ...]

    @property
    def alike(self) -> bool:
        """Whether it is one number for all of the wrong cells, so that nothing is told of the groups."""
        return self.count < 2 or float(np.ptp(self.values[self.values != 1])) < 1e-6


def factors_of(tap: WrongTap, split: tuple[int, ...], across: tuple[int, ...]) -> Factors | None:
    """What brings the wrong cells of each group nearest, 1 for a group without any; None where one has too few cells.

    The tensor of the shape `split` is divided into groups whose cells are `across` these axes.
    """
    usable = floats(tap)
    if usable is None:
        return None
    actual, truth, cells = (values.reshape(split) for values in usable)
    counts = cells.sum(across, keepdims=True)
    wrong = counts > 0
    if not wrong.any() or counts[wrong].min() < _FEWEST:
        return None
    squares = np.where(cells, truth * truth, 0).sum(across, keepdims=True)
    ratio = np.where(wrong, np.where(cells, truth * actual, 0).sum(across, keepdims=True) / squares, 1)
    if not np.isfinite(ratio).all() or not ratio.all():
        return None  # zeros
    noise = np.sqrt(np.where(cells, tap.limits.reshape(split) ** 2, 0).sum(across, keepdims=True) / squares)
    return Factors(ratio, np.where(wrong, noise, noise[wrong].max()), int(wrong.sum()), split)


def _weight(tap: WrongTap, factors: Factors) -> float:
    scale = np.broadcast_to(factors.values, factors.split).reshape(tap.truth.shape)
    return explained(tap, scale * tap.truth, scale, fitted=factors.count)


def group_factor(tap: WrongTap) -> Finding | None:
    """One factor for each index of an axis (a channel's weight, a head's scale), each row, or each part of one."""
    sums = rows_sum(tap)
    if sums is not None and sums.weight == 1:
        return None  # what rows are divided by says more
    best = _axis_factor(tap)
    return best if best is not None and best.weight == 1 else _row_factor(tap) or best


def _axis_factor(tap: WrongTap) -> Finding | None:
    best: Finding | None = None
    axes = range(tap.truth.ndim)
    for axis, name in enumerate(tap.axes[: tap.truth.ndim]):
        factors = factors_of(tap, tap.truth.shape, tuple(dimension for dimension in axes if dimension != axis))
        weight = 0.0 if factors is None or factors.alike else _weight(tap, factors)
        if factors is None or weight <= (0.9 if best is None else best.weight):
            continue
        channel = axis == tap.truth.ndim - 1
        says = f"each index of {name} has a factor of its own: {numbers(factors.values.ravel())}"
        if runs := _runs(factors):
            says = f"the indices of {name} have factors in blocks: {runs}"
        best = Finding("fit.channel_factor" if channel else "fit.axis_factor", says, weight)
    return best


def _row_factor(tap: WrongTap) -> Finding | None:
    for parts, split in _parts(tap):
        factors = factors_of(tap, split, (len(split) - 1,))
        if factors is None or factors.alike or _weight(tap, factors) < 1:
            continue
        name, size = tap.axes[-1], split[-1]
        rows = factors.values.reshape(-1, parts)
        rows = rows[(rows != 1).any(-1)]
        if parts == 1:
            says = f"each row of {name} has a factor of its own: {numbers(rows.ravel())}"
            return Finding("fit.row_factor", says, 1.0)
        says = f"each row has one factor for each {size} of {name}: {numbers(rows[0])} in the first wrong one"
        rows = rows[(rows != 1).all(-1)]
        if rows.size and np.abs((rows**-2.0).mean(-1) - 1).max() < 1e-4:
            says += f": each {size} are divided by their own root mean square, not by the row's"
        return Finding("fit.part_factor", says, 1.0)
    return None


def key_parts(tap: WrongTap) -> Finding | None:
    """One factor a row for each block of its keys: the blocks are right, what joins them is not."""
    usable = floats(tap)
    if usable is None or tap.truth.ndim < 2 or tap.axes[-1] != "key":
        return None
    actual, truth, cells = usable
    keys = tap.truth.shape[-1]
    equal = {math.ceil(keys / parts) for parts in range(2, _MOST_PARTS + 1)}
    for size in sorted({*equal, *(2**power for power in range(1, keys.bit_length()))} - {1, keys}, reverse=True):
        starts = np.arange(0, keys, size)
        squares, products = (
            np.add.reduceat(np.where(cells, truth * values, 0), starts, axis=-1) for values in (truth, actual)
        )
        by_block = np.where(squares > 0, products / np.where(squares > 0, squares, 1), 1)
        scale = np.repeat(by_block, size, axis=-1)[..., :keys]
        if explained(tap, scale * truth, scale, fitted=int((squares > 0).sum())) == 1:
            row = by_block.reshape(-1, len(starts))[(squares > 0).all(-1).ravel()]
            shown = f": {numbers(row[0])} in the first wrong one" if len(row) else ""
            says = f"each row has one factor for each {size} keys{shown}: blocks of keys are joined by wrong weights"
            return Finding("fit.key_parts", f"{says}, as by another log-sum-exp", 1.0)
    return None


def _parts(tap: WrongTap) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Into how many equal parts a row of channels may be divided, and the tensor's shape then."""
    shape = tap.truth.shape
    if len(shape) < 2 or tap.axes[-1] == "key":
        return
    for parts in range(1, _MOST_PARTS + 1):
        if shape[-1] % parts == 0 and shape[-1] // parts > _FEWEST:
            yield parts, (shape if parts == 1 else (*shape[:-1], parts, shape[-1] // parts))


def _runs(factors: Factors) -> str:
    """Neighbouring indices with one factor, where there are few such blocks: "0–19 × 0.98, 20–39 × 1.03"."""
    values, tolerances = factors.values.ravel(), factors.tolerances.ravel() + 2.0**-22
    starts = [0]
    for at in range(1, len(values)):
        if abs(values[at] - values[starts[-1]]) > tolerances[at] + tolerances[starts[-1]]:
            starts.append(at)
    if not 2 <= len(starts) <= len(values) // 2:
        return ""
    ends = [*starts[1:], len(values)]
    return ", ".join(f"{a}–{b - 1} × {values[a]:.4g}" for a, b in zip(starts, ends, strict=True))
