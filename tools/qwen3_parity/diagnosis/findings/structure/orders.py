"""Rows of a weight that stand elsewhere, or belong to other tensors; columns in another order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import MOST, Product
from qwen3_parity.judge.indices import ranges
from qwen3_parity.mistakes.linear_fitted import order_in_words, runs

_LOOKED_UP = 8
"""Positions whose numbers are looked up."""
_MOST = 1 << 25
"""Weights of all tensors whose rows are looked up."""
_WORK = 1 << 31
"""Multiplications that the order of columns is worth."""
_TURNS = 600
"""Steps of the search for an order."""
_EACH = 10
"""Steps between two orders that are tried."""
_NAMED = 6
"""Rows, or runs of them, that are named one by one."""
_FEWEST, _NEAR = 3, 1e-2
"""Positions that tell a row, and how far it may be from the mean that it was drawn about, in parts of the error."""
_SMALL = 1e-5
"""Directions of inputs and weights that are smaller than this, of the largest, tell nothing."""


def rows(product: Product) -> tuple[str, str, float] | None:
    """Each output is some row's of the checkpoint: of this weight in another order, or of others of its width."""
    few = product.part(np.argsort(-np.square(product.x).sum(1), kind="stable")[:_LOOKED_UP])
    names, every = zip(*_tensors(product), strict=True)
    sources = [(number, row) for number, weight in enumerate(every) for row in range(len(weight))]
    for moves in (False, True) if product.bias.any() else (False,):  # the bias stays where it is, or goes along
        bias = [product.bias if moves and number == 0 else np.zeros(len(w)) for number, w in enumerate(every)]
        at = _looked_up(few, np.concatenate([few.x @ w.T for w in every], 1) + np.concatenate(bias), moves)
        weight = np.stack([every[sources[i][0]][sources[i][1]] for i in at])
        at_home = np.array([sources[i][1] if sources[i][0] == 0 else -1 for i in at])
        share = product.share(weight=weight, bias=product.bias[at_home] if moves and (at_home >= 0).all() else None)
        if share:
            return *_said(product, [(names[sources[i][0]], sources[i][1]) for i in at]), share
    return None


def _tensors(product: Product) -> Iterator[tuple[str, Array]]:
    """The weight itself, and others with rows of its width, up to a number of elements."""
    yield product.name, product.weight
    left = _MOST
    for name, weight in sorted(product.tensors.items()):
        fits = weight.ndim == 2 and weight.shape[1] == product.weight.shape[1] and weight.size <= left
        if fits and name != product.name:
            yield name, np.asarray(weight, np.float64)
            left -= weight.size


def _looked_up(few: Product, products: Array, moves: bool) -> Array:
    """For each output the row of `products[position, row]` whose numbers are nearest; its own where none is near."""
    values = few.y if moves else few.products
    order = np.argsort(products[0], kind="stable")
    width = few.limits[0] + np.abs(products[0]).max() * 1e-7
    low = np.searchsorted(products[0][order], values[0] - width, "left")
    high = np.searchsorted(products[0][order], values[0] + width, "right")
    at = np.arange(values.shape[1])
    for output, (start, stop) in enumerate(zip(low, high, strict=True)):
        if stop > start:
            near = np.sort(order[start:stop])
            far = np.abs(products[:, near] - values[:, output, None]).max(0)
            equal = near[far <= far.min()]  # rows that come twice, tied tensors: its own, and what goes on
            equal = equal[equal < len(at)] if equal[0] < len(at) else equal
            at[output] = at[output - 1] + 1 if output and at[output - 1] + 1 in equal else equal[0]
    return at


def _said(product: Product, sources: list[tuple[str, int]]) -> tuple[str, str]:
    """Name and words of what stands where."""
    tensors = list(dict.fromkeys(name for name, _ in sources))
    order = np.array([row for _, row in sources])
    if tensors == [product.name]:
        return reordered(order)
    if len(tensors) == 1:
        if np.array_equal(order, np.arange(len(order))):
            return "weight.other_tensor", f"its weight is {tensors[0]}"
        return "weight.other_rows", f"its weight's rows are {runs(order)} of {tensors[0]}"
    shown = "; ".join(f"{name}: {sum(source == name for source, _ in sources)}" for name in tensors[:4])
    first = ", ".join(f"{name.rpartition('.weight')[0].rpartition('.')[2]}[{row}]" for name, row in sources[:6])
    return "weight.fused_layout", f"its weight's rows are those of several tensors ({shown}), in order {first} …"


def reordered(order: Array) -> tuple[str, str]:
    """What a weight is called whose rows are its own in another order, and what is said of it."""
    moved = np.flatnonzero(order != np.arange(len(order)))
    pairs = ", ".join(f"row {order[i]} at {i}" for i in moved[:_NAMED]) + " …" * (len(moved) > _NAMED)
    if len(np.unique(order)) < len(order):
        return "structure.rows_repeated", f"rows of its weight stand in other rows' places: {pairs}"
    name, parts, where = order_in_words(order, "rows")
    shards = np.split(moved, 1 + np.flatnonzero((np.diff(moved) != 1) | (np.diff(order[moved]) != 1)))
    if len(shards) <= _NAMED < len(moved):
        exchanged = ", ".join(f"rows {runs(order[at])} at {runs(at)}" for at in shards)
        return name, f"parts of its weight are in another order: {exchanged}"
    return (
        name,
        f"its weight's {parts} are in another order: {where + ' stand at 0, 1, 2 …' if len(moved) > _NAMED else pairs}",
    )


def rows_replaced(product: Product) -> tuple[str, str, float] | None:
    """The mean of the others in some rows' places, as a vocabulary that is resized has it; zeros beside them, too."""
    wrong = product.wrong
    if product.positions < _FEWEST or not 0 < wrong.mean() <= 0.5:
        return None
    part = product.part(outputs=wrong)
    size, mean = np.linalg.norm(part.missing, axis=0), product.x @ product.weight[~wrong].mean(0)
    is_mean, is_zero = (
        np.linalg.norm(part.products - number, axis=0) <= _NEAR * size for number in (mean[:, None], 0.0)
    )
    if not is_mean.any() or not (is_mean | is_zero).all():
        return None
    says = f"{rows_are(np.flatnonzero(wrong)[is_mean])} not the checkpoint's but the mean of the other rows"
    zeros = f"; {rows_are(np.flatnonzero(wrong)[is_zero])} zero" if is_zero.any() else ""
    return "structure.rows_replaced", f"{says}{zeros}; the rest are the checkpoint's", 1.0


def rows_are(rows: Array) -> str:
    """How a sentence about rows of a weight begins."""
    return f"row {rows[0]} of its weight is" if len(rows) == 1 else f"rows {ranges(rows)} of its weight are"


def columns_permuted(product: Product) -> tuple[str, str, float] | None:
    """Each column of the weight is multiplied with another input than its own."""
    if product.x.shape[1] ** 3 > _WORK:
        return None
    for order in _orders(product):
        share = product.share(x=product.x[:, order])
        if share:
            _, parts, where = order_in_words(order, "inputs")
            says = f"its weight's columns are in another order than its input: they are multiplied with {parts} {where}"
            return "structure.columns_permuted", says, share
    return None


def _orders(product: Product) -> Iterator[Array]:
    """Orders of the inputs that the numbers come near to: input order[i] is multiplied with column i.

    With y = x S w, S a permutation, inputs and weights show S between the directions that they have, and between these
    and the direction of its sums, which are 1. The rest follows from its elements, none of which is negative, by
    reflections (Douglas and Rachford).
    """
    inputs = product.x.shape[1]
    of_input, of_weight = (np.full((1, inputs), np.abs(part).max()) for part in (product.x, product.weight))
    x, weight = np.vstack([product.x, of_input]), np.vstack([product.weight, of_weight])
    products = np.vstack([product.products, of_input[0, 0] * product.weight.sum(1)])
    products = np.hstack([products, of_weight[0, 0] * x.sum(1, keepdims=True)])
    of_inputs, of_weights = _directions(x), _directions(weight)
    shown = of_inputs.inverse @ products @ of_weights.inverse.T
    guess, tried = shown.copy(), set[bytes]()
    for turn in range(1 + min(_TURNS, _WORK // (4 * inputs**3))):
        lifted = np.maximum(guess, 0)
        order = lifted.argmax(0)
        if turn % _EACH == 0 and order.tobytes() not in tried and len(np.unique(order)) > MOST * inputs:
            tried.add(order.tobytes())
            yield order
        turned = 2 * lifted - guess
        guess += turned + shown - of_inputs.onto @ turned @ of_weights.onto - lifted


class _Directions(NamedTuple):
    """What a matrix `[row, column]` tells of its columns: its inverse there, and the projection onto them."""

    inverse: Array
    onto: Array


def _directions(matrix: Array) -> _Directions:
    left, sizes, axes = np.linalg.svd(matrix, full_matrices=False)
    large = sizes > _SMALL * sizes.max()
    return _Directions((axes[large].T / sizes[large]) @ left[:, large].T, axes[large].T @ axes[large])
