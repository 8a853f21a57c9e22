"""Rows of probabilities: what they sum to, and which keys or tokens get none of it, or some, where they should not."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.drawn import LEGEND, drawn, row_in_words
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.judge.indices import ranges

_MECHANISM = 0.6
"""What a broken rule of the op tells where the numbers have something else as well."""
_OF_KEYS = ("0 stands where a key is visible", "not 0 where a key is hidden")
_OF_TOKENS = ("0 stands where a token stays", "not 0 where a token is removed")


def _probabilities(tap: WrongTap) -> tuple[Array, Array, Array] | None:
    """Actual values, truth, and which rows are judged and finite, `[…, 1]`; None where the right rows sum to no 1."""
    usable = floats(tap)
    if usable is None or tap.unit is None or tap.truth.ndim < 2 or tap.truth.shape[-1] < 2:
        return None
    actual, truth, _ = usable
    rows = np.asarray(tap.judged.any(-1, keepdims=True))
    chances = truth[np.broadcast_to(rows, truth.shape)]
    sums = truth.sum(-1, keepdims=True)[rows]
    if not (chances >= 0).all() or not (np.abs(sums - 1) < 1e-6).all():
        return None
    return actual, truth, np.asarray(rows & np.isfinite(actual).all(-1, keepdims=True))


def rows_sum(tap: WrongTap) -> Finding | None:
    """Rows that should sum to 1 and do not, with their sums; whether that is all that is wrong with them."""
    usable = _probabilities(tap)
    if usable is None:
        return None
    actual, truth, rows = usable
    sums = actual.sum(-1, keepdims=True)
    off = rows & (np.abs(sums - 1) > tap.limits.sum(-1, keepdims=True))
    if not off.any():
        return None
    low, high = float(sums[off].min()), float(sums[off].max())
    says = f"{int(off.sum())} of {int(rows.sum())} rows do not sum to 1 but to {low:.4g}"
    says += f" to {high:.4g}" if f"{low:.4g}" != f"{high:.4g}" else ""
    scale = np.where(off, sums, 1)
    if explained(tap, truth * scale, np.broadcast_to(scale, truth.shape), fitted=int(off.sum())) < 1:
        return Finding("invariant.rows_sum", f"{says}, and their parts are wrong as well", _MECHANISM)
    more = "something else is in" if high < 1 else "a part is missing in" if low > 1 else "another number is"
    return Finding("invariant.rows_sum", f"{says}: {more} the sum that they are divided by; their parts are right", 1.0)


def visible_zero(tap: WrongTap) -> Finding | None:
    """Keys whose probability is 0 though they are visible, or not 0 though hidden, with the first such row drawn.

    Of a vocabulary: tokens that stay, or are removed; nothing is drawn.
    """
    usable = _probabilities(tap)
    if usable is None:
        return None
    actual, truth, rows = usable
    lost, shown = tap.wrong & rows & (truth > 0) & (actual == 0), tap.wrong & rows & (truth == 0) & (actual != 0)
    wrong = (lost | shown).any(-1)
    if not wrong.any() or not (actual != 0).any():
        return None
    parts = [
        f"in {int(cells.any(-1).sum())} of {int(rows.sum())} rows {text}, at {tap.axes[-1]} {ranges(keys)}"
        for cells, text in zip((lost, shown), _OF_KEYS if tap.axes[-1] == "key" else _OF_TOKENS, strict=True)
        if len(keys := np.flatnonzero(cells.any(tuple(range(cells.ndim - 1)))))
    ]
    says = "; ".join(parts)
    if tap.axes[-1] == "key":
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        picture = drawn(truth[first] > 0, np.where(tap.wrong[first], actual[first] != 0, truth[first] > 0))
        says += f"; {row_in_words(tap.axes, first)}: {picture} ({LEGEND})"
    left = np.where(lost, 0, truth)
    rest = np.maximum(left.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    for guess, more in (
        (left / rest * (1 - np.where(shown, actual, 0).sum(-1, keepdims=True)), ""),
        (left, "; the others are not divided by their own sum: hidden behind the softmax"),
    ):
        guess = np.where(shown, actual, guess)
        if tap.reproduced(guess)[tap.judged & rows].all():
            return Finding("invariant.visible_zero", says + more, 1.0)
    return Finding("invariant.visible_zero", says, _MECHANISM)
