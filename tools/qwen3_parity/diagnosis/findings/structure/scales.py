"""Numbers that are multiplied to, or added to, a weight: one, one for each row, one for each column; and biases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import numbers
from qwen3_parity.diagnosis.findings.product import Product
from qwen3_parity.diagnosis.findings.structure.orders import rows_are
from qwen3_parity.judge.indices import ranges

_FEWEST = 3
"""Positions that a row's factor is told from."""
_NEAR = 1e-3
"""How far a fitted factor may be from the stored number that it is, as a part of the largest."""
_STORED: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("", lambda v: v),
    ("1 + ", lambda v: 1 + v),
    ("1 / ", lambda v: 1 / v),
    ("the square of ", np.square),
)

_BIASES = (
    ("weight.no_bias", "it adds no bias", 0),
    ("weight.bias_twice", "it adds the bias twice", 2),
    ("weight.bias_negated", "it subtracts the bias", -1),
)


def factor(product: Product) -> tuple[str, str, float] | None:
    """One number."""
    truth = product.truth - product.bias
    size = float(np.vdot(truth, truth))
    by = float(np.vdot(truth, product.products)) / size if size else 0.0
    share = product.share(weight=by * product.weight)
    return ("weight.scaled", f"its weight is {by:.7g} × what it should be", share) if share else None


def added(product: Product) -> tuple[str, str, float] | None:
    """A bias left out, twice, of another tensor, of none: the same numbers at every position."""
    if product.positions < _FEWEST:
        return None
    constant, bias = product.missing.mean(0), product.bias
    if not product.share(bias=bias + constant):
        return None
    for name, says, times in _BIASES if bias.any() else ():
        if share := product.share(bias=times * bias):
            return name, says, share
    for name, vector in sorted(product.tensors.items()):
        if vector.shape == bias.shape and (share := product.share(bias=np.asarray(vector, np.float64))):
            return ("weight.other_tensor" if bias.any() else "weight.extra_bias"), f"it adds {name}", share
    says = "it adds the same numbers at every position, which no tensor of the checkpoint holds"
    return "weight.other_bias" if bias.any() else "weight.extra_bias", says, product.share(bias=bias + constant)


def row_shifted(product: Product) -> tuple[str, str, float] | None:
    """W + z @ ones: a number added to every weight of a row, as a zero point that is left out."""
    sums = product.x.sum(1)
    if product.positions < _FEWEST or not sums.any():
        return None
    shifts = sums @ product.missing / np.square(sums).sum()
    share = product.share(weight=product.weight + shifts[:, None])
    says = f"a number is added to all weights of a row (a zero point?): {numbers(shifts, 4)}"
    return ("structure.row_shifted", says, share) if share else None


def row_scaled(product: Product) -> tuple[str, str, float] | None:
    """diag(s) @ W: a number for each output."""
    if product.positions < _FEWEST:
        return None
    truth = product.truth - product.bias
    scales = (truth * product.products).sum(0) / np.maximum(np.square(truth).sum(0), 1e-300)
    share = product.share(weight=scales[:, None] * product.weight)
    return ("structure.row_scaled", _says(product, scales, "row"), share) if share else None


def column_scaled(product: Product) -> tuple[str, str, float] | None:
    """W @ diag(s): a number for each input, by least squares over every position and output."""
    x, weight = product.x, product.weight
    squares = (x.T @ x) * (weight.T @ weight)
    if product.y.size < 2 * x.shape[1] or np.linalg.matrix_rank(squares, hermitian=True) < len(squares):
        return None
    scales = np.linalg.solve(squares, ((product.products.T @ x) * weight).sum(0))
    share = product.share(weight=weight * scales)
    return ("structure.column_scaled", _says(product, scales, "column"), share) if share else None


def _says(product: Product, scales: Array, which: str) -> str:
    """The factors in words: a stored vector where they are one; the few that are not 1; or the first ones."""
    for name, vector in product.tensors.items():
        for words, change in _STORED if vector.shape == scales.shape else ():
            with np.errstate(all="ignore"):
                stored = change(np.asarray(vector, np.float64))
            by = stored[:, None] if which == "row" else stored
            if _near(stored, scales) and product.share(weight=product.weight * by):
                return f"its weight's {which}s are multiplied by {words}{name}: that is folded into it"
    changed = np.flatnonzero(np.abs(scales - 1) > _NEAR)
    if len(changed) < len(scales) and np.abs(scales[changed]).max(initial=0) <= _NEAR:
        if which == "column":  # nobody says whether it is the input's
            return f"its weight's columns {ranges(changed.tolist())} are left out: their factors are 0"
        return f"{rows_are(changed)} zero; the rest are the checkpoint's"
    if len(changed) <= len(scales) // 2:
        shown = ", ".join(f"{which} {i} by {scales[i]:.5g}" for i in changed[:4])
        return f"its weight's {which}s are right but some that are multiplied: {shown}" + " …" * (len(changed) > 4)
    size = _block(scales)
    shown = ", ".join(f"{number:.5g}" for number in scales[::size][:4])
    each = f"block of {size} {which}s" if size > 1 else which
    return f"its weight has a factor for each {each}: {shown}" + " …" * (len(scales) > 4 * size)


def _near(stored: Array, scales: Array) -> bool:
    return bool(np.isfinite(stored).all() and np.abs(stored - scales).max() <= _NEAR * np.abs(scales).max())


def _block(scales: Array) -> int:
    """How many neighbours share a factor."""
    for size in range(len(scales) // 2, 1, -1):
        if len(scales) % size == 0:
            parts = scales.reshape(-1, size)
            if np.ptp(parts, axis=1).max() <= _NEAR * np.abs(scales).max():
                return size
    return 1
