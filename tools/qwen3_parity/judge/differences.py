"""Which elements of a tap differ: the first and the worst, both values, and how many representable numbers apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array, Tensor
from qwen3_parity.judge.elements import Element, narrow_of
from qwen3_parity.judge.tiles import ordered


@dataclass(frozen=True, slots=True)
class Differences:
    """`count` of the `of` judged elements differ by more than is allowed; None twice where none does."""

    count: int
    of: int
    first: Element | None = None
    worst: Element | None = None


def differences(
    actual: Tensor, expected: Tensor, judged: Array | None = None, allowed: float | None = None
) -> Differences:
    """Compare two tensors of one shape, the elements where `judged` (broadcast to it) is True, or all.

    An element differs where its error is larger than `allowed`, or with None where its value or a zero's sign is
    another one; what is not finite on either side differs always.
    """
    a, b = actual.values(), expected.values()
    scope = np.ones(a.shape, bool) if judged is None else np.broadcast_to(judged, a.shape)
    with np.errstate(all="ignore"):  # overflow and NaN are findings here
        error = np.abs(a.astype(np.float64) - b.astype(np.float64))
    finite = np.isfinite(error)
    unequal = (a != b) | (np.signbit(a) != np.signbit(b)) if _floats(a, b) else a != b
    wrong = scope & (~finite | (unequal if allowed is None else error > allowed))
    count, of = int(np.count_nonzero(wrong)), int(np.count_nonzero(scope))
    if not count:
        return Differences(0, of)
    narrow = narrow_of(actual, expected)
    ranked = np.where(wrong, np.where(finite, error, np.inf), -1.0)
    first, worst = (np.unravel_index(int(ranking.argmax()), a.shape) if a.ndim else () for ranking in (wrong, ranked))
    return Differences(count, of, *(_element(a, b, tuple(map(int, at)), narrow) for at in (first, worst)))


def _floats(a: Array, b: Array) -> bool:
    return a.dtype.kind == b.dtype.kind == "f"


def _element(a: Array, b: Array, at: tuple[int, ...], narrow: str) -> Element:
    x, y = a[at], b[at]
    ulps = None
    if _floats(a, b) and np.isfinite(x) and np.isfinite(y):
        x_ordinal, y_ordinal = (int(ordered(np.atleast_1d(value), narrow)[0]) for value in (x, y))
        ulps = abs(x_ordinal - y_ordinal)
    return Element(at, x.item(), y.item(), ulps)
