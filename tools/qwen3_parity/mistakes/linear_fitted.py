"""Parameters that no tensor of the checkpoint holds: single elements, channels, or all of them."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.judge.indices import ranges
from qwen3_parity.mistakes.hypothesis import Compute, Hypothesis, OfSite
from qwen3_parity.mistakes.observed import Observed, likely, observe, real
from qwen3_parity.mistakes.parameters import loaded_as_stored, with_weight
from qwen3_parity.mistakes.ranks import COMBINED, RARE
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_FIX = "compare what is loaded with the checkpoint, element by element"
_MOST = 64
"""Output channels whose elements are looked for one by one."""
_MOST_ROWS = 1 << 12
"""Rows whose order is looked for: each is compared with each."""
_LONG = 16
"""Rows that stay together in shards of unequal size, on average."""


def reordered(site: Site) -> Iterator[Hypothesis]:
    """The order of the weight's rows that the numbers of one tap tell: the same one must explain every layer's."""
    observed = observe(site)
    if observed is None or observed.actual.ndim != 3 or observed.actual.shape[-1] > _MOST_ROWS:
        return
    cells = np.isfinite(observed.actual).all(axis=-1)
    shown = real(site)
    cells &= True if shown is None else shown.reshape(cells.shape)
    bias = site.parameters.get("bias", 0.0)  # it stays where it is
    actual, truth = ((values[cells].astype(np.float64) - bias).T for values in (observed.actual, observed.truth))
    if actual.shape[1] < 2:
        return
    far = np.square(actual).sum(1)[:, None] + np.square(truth).sum(1) - 2 * actual @ truth.T  # [row, row]
    order = np.argmin(far, axis=1)
    for row in range(1, len(order)):  # equal rows of a vocabulary: the one that goes on
        after = order[row - 1] + 1
        if after < len(order) and np.array_equal(truth[after], truth[order[row]]):
            order[row] = after
    if len(np.unique(order)) < len(order):
        return

    def taken(site: Site) -> Site | None:
        weight = site.parameters["weight"]
        return with_weight(site, weight[order]) if len(weight) == len(order) else None

    name, blocks, where = order_in_words(order, "rows")
    says = f"has a weight with its {blocks} in another order: {where} stand at 0, 1, 2 …"
    fix = "put outputs together in the order of the weight's rows" if loaded_as_stored(site) else _FIX
    yield from likely(site, observed, [Hypothesis(name, says, fix, OfSite(taken), RARE + 1)])


def order_in_words(order: Array, members: str) -> tuple[str, str, str]:
    """The name of a weight in another order, what moves together ("blocks of 2 rows"), and the order in words."""
    size = _block(order)
    where = runs(order[::size] // size)
    if size == 1:
        shards = np.count_nonzero(np.diff(order) != 1) < max(2, len(order) // _LONG)
        return "weight.shards_shuffled" if shards else "weight.permuted", members, where
    return "weight.shards_shuffled", f"blocks of {size} {members}", where


def _block(order: Array) -> int:
    """How many rows stay together wherever they go."""
    for size in range(len(order) // 2, 1, -1):
        if len(order) % size == 0:
            blocks = order.reshape(-1, size)
            if (np.diff(blocks, axis=1) == 1).all() and not (blocks[:, 0] % size).any():
                return size
    return 1


def runs(indices: Array) -> str:
    """Indices in words, neighbours together, the first ones: "4 to 9, 0, 2 …"."""
    return ranges(indices, " to ")


def unknown(site: Site) -> Iterator[Hypothesis]:
    """What the recorded numbers say of a weight that is none of the checkpoint's, where none is known to be loaded."""
    observed = observe(site)
    if observed is None or loaded_as_stored(site):
        return
    with np.errstate(all="ignore"):
        yield from _linear(site, observed)


def _linear(site: Site, observed: Observed) -> Iterator[Hypothesis]:
    outputs = np.flatnonzero(observed.wrong.reshape(-1, observed.wrong.shape[-1]).any(axis=0))
    every = observed.wrong.shape[-1]
    if len(outputs) <= _MOST or len(outputs) == every:
        elements = _elements(site, observed, outputs[:_MOST])
        if elements is not None:
            yield from _changed_elements(site, *elements, complete=len(outputs) <= _MOST)
    if not observed.actual[..., outputs].any():
        yield Hypothesis("weight.unknown", f"has no weights in output channels {_listed(outputs)}: zeros", _FIX, _zeroed(outputs), COMBINED + 1)  # fmt: skip


def _listed(indices: Array) -> str:
    return ", ".join(map(str, indices[:6])) + (" …" if len(indices) > 6 else "")


def _elements(site: Site, observed: Observed, outputs: Array) -> tuple[Array, Array, Array] | None:
    """The one weight of each wrong output whose change explains it: (outputs, inputs, changes); None if one has none."""
    x = np.asarray(site.inputs[0], np.float64).reshape(observed.actual.shape[0] * observed.actual.shape[1], -1)
    cells = real(site)
    good = np.ones(len(x), bool) if cells is None else cells.reshape(-1)
    x = x[good & np.isfinite(x).all(axis=-1)]
    difference = (observed.actual - observed.truth).reshape(len(good), -1)[good][:, outputs]
    if observed.unit is None or len(difference) != len(x) or not np.isfinite(difference).all():
        return None
    if len(np.unique(x, axis=0)) < 3:
        return None
    tolerance = headroom("op", "linear").max * observed.unit.reshape(len(good), -1)[good][:, outputs]
    changes = (x.T @ difference) / np.maximum(np.square(x).sum(axis=0)[:, None], 1e-300)
    inputs = np.empty(len(outputs), int)
    for i in range(len(outputs)):
        left = np.abs(difference[:, i : i + 1] - x * changes[:, i])  # [position, input]
        inputs[i] = int(np.argmin(left.max(axis=0)))
        if not (left[:, inputs[i]] <= tolerance[:, i]).all():
            return None
    return outputs, inputs, changes[inputs, np.arange(len(outputs))]


def _changed_elements(
    site: Site, outputs: Array, inputs: Array, changes: Array, *, complete: bool
) -> Iterator[Hypothesis]:
    layer = site.place.layer
    expected = site.parameters["weight"]

    def compute(site: Site) -> Result | None:
        if site.place.layer != layer or not complete:
            return None
        weight = np.array(site.parameters["weight"], np.float64)
        weight[outputs, inputs] += changes
        return OPS["linear"].truth(replace(site, parameters={**site.parameters, "weight": weight}))

    shown = ", ".join(
        f"[{j}, {i}] is {expected[j, i] + by:.5g} for {expected[j, i]:.5g}"
        for j, i, by in list(zip(outputs, inputs, changes, strict=True))[:3]
    )
    column = f"input column {inputs[0]} differs: " if len(set(inputs.tolist())) == 1 and len(outputs) > 1 else ""
    yield Hypothesis("weight.unknown", f"has weights of no tensor: {column}{shown}", _FIX, compute, COMBINED)
    if column and not complete:
        yield Hypothesis("weight.unknown", f"has weights of no tensor: input column {inputs[0]} differs", _FIX, _column(int(inputs[0])), COMBINED + 1)  # fmt: skip


def _column(index: int) -> Compute:
    def compute(site: Site) -> Result | None:
        observed = observe(site)
        truth, unit = OPS["linear"].truth(site)
        if observed is None:
            return truth, unit
        x = np.asarray(site.inputs[0], np.float64).reshape(*truth.shape[:2], -1)[..., index]
        difference = np.where(observed.wrong, observed.actual - observed.truth, 0)
        change = np.einsum("bs,bso->o", x, difference) / max(float(np.square(x).sum()), 1e-300)
        return truth + x[..., None] * change, unit

    return compute


def _zeroed(outputs: Array) -> Compute:
    def compute(site: Site) -> Result:
        truth, unit = OPS["linear"].truth(site)
        gone = np.isin(np.arange(truth.shape[-1]), outputs)
        return np.where(gone, 0.0, truth), unit

    return compute
