"""Where the error sits, and how large it is: said when nothing better is known."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.fits.cells import indices, wrong_cells
from qwen3_parity.diagnosis.fits.finding import Finding
from qwen3_spec.site import Result


def _along(evidence: Evidence, cells: Array) -> list[str]:
    """The axes along which some of the judged indices are free of `cells`, with those that are not."""
    parts = []
    for axis, name in enumerate(evidence.site.place.axes[: cells.ndim]):
        across = tuple(other for other in range(cells.ndim) if other != axis)
        wrong, of = cells.any(axis=across), evidence.judged.any(axis=across)
        if wrong.sum() < of.sum():
            few = wrong.sum() <= of.sum() / 2
            where = indices(np.flatnonzero(wrong)) if few else f"all but {indices(np.flatnonzero(of & ~wrong))}"
            parts.append(f"{name} {where}")
    return parts


def block(evidence: Evidence, cells: Array) -> str:
    """The block of indices that `cells` fill, in words; empty when they fill none, or everything."""
    box = np.ones(cells.shape, bool)
    for axis in range(cells.ndim):
        across = tuple(other for other in range(cells.ndim) if other != axis)
        box &= cells.any(axis=across, keepdims=True)
    filled = bool(cells.any()) and bool(cells[box & evidence.judged].all())
    return ", ".join(_along(evidence, cells)) if filled else ""


def concentrated(evidence: Evidence, result: Result) -> Finding | None:
    """The indices of each axis that carry all of the error, where it is not all of them."""
    cells = wrong_cells(evidence, result)
    if cells is None or not cells.any():
        return None
    parts = _along(evidence, cells)
    if not parts:
        return None
    share = 1 - float(cells.sum() / max(int(evidence.judged.sum()), 1))
    says = f"all of the error is in {', '.join(parts)} ({int(cells.sum())} of {int(evidence.judged.sum())} numbers)"
    return Finding("fit.concentrated", says, 0.3 + 0.19 * share)


def size(evidence: Evidence, result: Result) -> Finding | None:
    """How large the error is; always something to say."""
    truth, _ = result
    if truth.shape != evidence.actual.shape or not evidence.judged.any():
        return None
    if truth.dtype.kind != "f":
        wrong = int(((evidence.actual != truth) & evidence.judged).sum())
        return Finding(
            "fit.size", f"{wrong} of {int(evidence.judged.sum())} values are wrong{_example(evidence, truth)}", 0.1
        )
    if not np.isfinite(evidence.actual[evidence.judged]).any():
        return None
    with np.errstate(all="ignore"):
        wrong_by, right = ((evidence.actual - truth) ** 2)[evidence.judged], (truth**2)[evidence.judged]
        if np.isnan(wrong_by).all() or np.isnan(right).all():
            return Finding("fit.size", "every number is NaN", 0.1)
        error, scale = (float(np.sqrt(np.nanmean(one))) for one in (wrong_by, right))
    says = f"the error is {error / scale:.2g} of its size" if scale > 0 else f"the error is {error:.2g}"
    return Finding("fit.size", says, 0.1)


def _example(evidence: Evidence, truth: Array) -> str:
    wrong = np.argwhere((evidence.actual != truth) & evidence.judged)
    if not len(wrong):
        return ""
    at = tuple(int(i) for i in wrong[0])
    return f", the first at {list(at)}: {evidence.actual[at]} in place of {truth[at]}"
