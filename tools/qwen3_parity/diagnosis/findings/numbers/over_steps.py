"""What several wrong taps of a place say together: a factor or an offset that changes from position to position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats, numbers
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.factors import factors_of
from qwen3_parity.diagnosis.findings.numbers.laws import law
from qwen3_parity.diagnosis.findings.numbers.positions import positions, slots
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.judge.indices import ranges


def position_factor(taps: Sequence[WrongTap]) -> Finding | None:
    """The factor of each token of all of these taps follows from its position, or from its slot."""
    for word, where in (("position", positions), ("slot", slots)):
        parts = [factors for tap in taps if (factors := _by_token(tap, where(tap))) is not None]
        if len(parts) < len(taps):
            continue
        at, values, tolerances = (np.concatenate(column) for column in zip(*parts, strict=True))
        words = law(at, values, tolerances)
        if words:
            order = np.argsort(at, kind="stable")
            listed = numbers(values[order][np.unique(at[order], return_index=True)[1]])
            says = f"the factor of each token follows from its {word}: {listed}, that is {words.format(word)}"
            return Finding("fit.position_factor", says, 1.0)
    return None


def _by_token(tap: WrongTap, where: Array | None) -> tuple[Array, Array, Array] | None:
    """Places, factors and how well they are known, of each wrong token; None where factors do not tell all of it."""
    if where is None or floats(tap) is None:
        return None
    across = tuple(axis for axis, size in enumerate(where.shape) if size == 1 and axis != _token(tap))
    factors = factors_of(tap, tap.truth.shape, across)
    if factors is None:
        return None
    scale = np.broadcast_to(factors.values, tap.truth.shape)
    if explained(tap, scale * tap.truth, scale, fitted=factors.count) < 1:
        return None
    wrong = tap.wrong.any(across, keepdims=True)
    return np.broadcast_to(where, wrong.shape)[wrong], factors.values[wrong], factors.tolerances[wrong]


def _token(tap: WrongTap) -> int:
    return next(tap.axes.index(name) for name in ("query", "key") if name in tap.axes)


def step_offset(taps: Sequence[WrongTap]) -> Finding | None:
    """Whole numbers that are off by one number in a step, and by another one in the next."""
    offsets = dict[int, int]()
    for tap in sorted(taps, key=lambda tap: tap.step):
        if tap.truth.dtype.kind not in "iu" or tap.actual.dtype.kind not in "iu" or not tap.wrong.any():
            return None
        off = np.unique((tap.actual.astype(np.int64) - tap.truth.astype(np.int64))[tap.wrong])
        if len(off) != 1 or offsets.setdefault(tap.step, int(off[0])) != off[0]:
            return None
    steps, values = list(offsets), list(offsets.values())
    if len(values) < 3 or len(set(values)) < 2:
        return None
    says = f"off by {', '.join(f'{value:+d}' for value in values)} in steps {ranges(steps)}"
    grown = {(b - a) / (after - at) for at, after, a, b in zip(steps, steps[1:], values, values[1:], strict=False)}
    says += f": {grown.pop():+.3g} more with each step" if len(grown) == 1 else ""
    return Finding("fit.step_offset", says, 0.6)
