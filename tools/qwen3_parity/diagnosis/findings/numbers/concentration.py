"""Where the error sits, and how large it is: said when nothing better is known."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import floats, indices
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap


def _along(tap: WrongTap, cells: Array) -> list[str]:
    """The axes along which some of the judged indices are free of `cells`, with those that are not."""
    parts = []
    for axis, name in enumerate(tap.axes[: cells.ndim]):
        across = tuple(dimension for dimension in range(cells.ndim) if dimension != axis)
        wrong, of = cells.any(axis=across), tap.judged.any(axis=across)
        if wrong.sum() < of.sum():
            few = wrong.sum() <= of.sum() / 2
            where = indices(np.flatnonzero(wrong)) if few else f"all but {indices(np.flatnonzero(of & ~wrong))}"
            parts.append(f"{name} {where}")
    return parts


def block(tap: WrongTap, cells: Array) -> str:
    """The block of indices that `cells` fill, in words; empty when they fill none, or everything."""
    box = np.ones(cells.shape, bool)
    for axis in range(cells.ndim):
        across = tuple(dimension for dimension in range(cells.ndim) if dimension != axis)
        box &= cells.any(axis=across, keepdims=True)
    filled = bool(cells.any()) and bool(cells[box & tap.judged].all())
    return ", ".join(_along(tap, cells)) if filled else ""


def concentrated(tap: WrongTap) -> Finding | None:
    """The indices of each axis that carry all of the error, where it is not all of them."""
    cells = tap.wrong
    parts = _along(tap, cells) if cells.any() else []
    if not parts:
        return None
    share = 1 - float(cells.sum() / max(int(tap.judged.sum()), 1))
    says = f"all of the error is in {', '.join(parts)} ({int(cells.sum())} of {int(tap.judged.sum())} numbers)"
    return Finding("fit.concentrated", says, 0.3 + 0.19 * share)


_ALIKE, _MANY = 0.1, 64
"""The cosine of what has nothing in common, and how many numbers show that."""


def unrelated(tap: WrongTap) -> Finding | None:
    """The numbers have nothing in common with what they should be."""
    usable = floats(tap)
    if usable is None or int(usable[2].sum()) < max(_MANY, _NEARLY_ALL * int(tap.judged.sum())):
        return None
    actual, truth = (values[usable[2]] for values in usable[:2])
    sizes = float(np.linalg.norm(actual) * np.linalg.norm(truth))
    cosine = float(np.vdot(actual, truth)) / sizes if sizes > 0 and np.isfinite(sizes) else 1.0
    if abs(cosine) >= _ALIKE:
        return None
    linear = "linear" in tap.ops
    whose = "another weight, one that was never loaded, or another input" if linear else "another's numbers?"
    says = f"it has nothing in common with what it should be (cosine {cosine:.2g}): {whose}"
    return Finding("fit.unrelated", says, 0.3)


_NEARLY_ALL = 0.9
_OTHER_SIZE = 10
"""How many times larger or smaller numbers are of which that is said."""


def size(tap: WrongTap) -> Finding | None:
    """How large the error is; nothing where numbers are not finite, whose error has no size."""
    truth = tap.truth
    if not tap.judged.any():
        return None
    if truth.dtype.kind != "f":
        wrong = int(((tap.actual != truth) & tap.judged).sum())
        return Finding("fit.size", f"{wrong} of {int(tap.judged.sum())} values are wrong{_example(tap)}", 0.1)
    if not np.isfinite(tap.actual[tap.judged]).all():
        return None
    with np.errstate(all="ignore"):
        squared_error, squares = ((tap.actual - truth) ** 2)[tap.judged], (truth**2)[tap.judged]
        if np.isnan(squared_error).all():
            return None
        error, scale = (float(np.sqrt(np.nanmean(values))) for values in (squared_error, squares))
        sizes = np.square(tap.actual[tap.judged])
        times = float(np.sqrt(sizes.mean())) / scale if scale > 0 else 1.0
    says = f"the error is {error / scale:.2g} of its size" if scale > 0 else f"the error is {error:.2g}"
    if not 1 / _OTHER_SIZE < times < _OTHER_SIZE:
        says += f"; its numbers are {times:.2g} times as large as they should be"
    return Finding("fit.size", says, 0.1)


def _example(tap: WrongTap) -> str:
    wrong = np.argwhere((tap.actual != tap.truth) & tap.judged)
    if not len(wrong):
        return ""
    at = tuple(int(i) for i in wrong[0])
    return f", the first at {list(at)}: {tap.actual[at]} in place of {tap.truth[at]}"
