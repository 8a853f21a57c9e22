"""What a bias on scores may depend on, and the bias that the numbers tell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_golden import Array
from qwen3_spec.site import Site

Labels = Callable[[Site, tuple[int, ...]], Array]
"""An integer for every cell `[batch, heads, query, key]` of a site: cells of one label have one bias."""
_FAR = 1_000_000
"""Added to the encoder's key slots, to tell them from distances."""


def _own_keys(site: Site, keys: int) -> int:
    return site.stop if site.stack == "decoder" else keys


def _distances(site: Site, shape: tuple[int, ...]) -> Array:
    _, _, queries, keys = shape
    own_length = _own_keys(site, keys)
    key = np.arange(keys)[None, None, None]
    distance = own_length - queries + np.arange(queries)[None, None, :, None] - key
    return np.broadcast_to(np.where(key < own_length, distance, _FAR + key - own_length), shape)


def _heads(site: Site, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.arange(shape[1])[None, :, None, None], shape)


def _keys(site: Site, shape: tuple[int, ...]) -> Array:
    key = np.arange(shape[3])[None, None, None]
    own_length = _own_keys(site, shape[3])
    return np.broadcast_to(np.where(key < own_length, key, _FAR + key - own_length), shape)


GROUPINGS: tuple[tuple[str, Labels], ...] = (
    ("one number to every score", lambda site, shape: np.zeros(shape, int)),
    ("one number to the encoder's keys, another to its own",
     lambda site, shape: (_keys(site, shape) >= _FAR).astype(int)),
    ("a number to each head's scores", _heads),
    ("a number to each key's scores", _keys),
    ("a number for each distance of query and key", _distances),
    ("a number for each column, whatever the half", lambda site, shape: np.broadcast_to(np.arange(shape[3]), shape)),
    ("a number for each head and key", lambda site, shape: 4 * _FAR * _heads(site, shape) + _keys(site, shape)),
    ("a number for each head and distance of query and key",
     lambda site, shape: 4 * _FAR * _heads(site, shape) + _distances(site, shape)),
)  # fmt: skip
"""What a bias may depend on, the plainest first."""

Table = dict[int, float]


def fitted(added: Array, labels: Array, cells: Array) -> Table | None:
    """The mean of what was added for each label; None when there are too few numbers for so many labels."""
    distinct, inverse, counts = np.unique(labels[cells], return_inverse=True, return_counts=True)
    if 2 * len(distinct) > cells.sum():
        return None
    sums = np.bincount(inverse, weights=added[cells])
    return dict(zip(map(int, distinct), map(float, sums / counts), strict=True))


def fitted_up_to_rows(added: Array, labels: Array, cells: Array) -> Table | None:
    """The same where every row (the last axis) may have a constant of its own: a softmax does not see it."""
    rows = int(cells.any(axis=-1).sum())
    distinct, inverse, counts = np.unique(labels[cells], return_inverse=True, return_counts=True)
    if not rows or 2 * len(distinct) + rows > cells.sum():
        return None
    # Alternate between the rows' constants and the labels' means: converges to the least squares solution.
    spread = np.zeros(added.shape, int)
    spread[cells] = inverse
    means = np.zeros(len(distinct))
    per_row = np.maximum(cells.sum(axis=-1, keepdims=True), 1)
    clean = np.where(cells, added, 0.0)
    for _ in range(400):
        left = np.where(cells, clean - means[spread], 0.0)
        constants = left.sum(axis=-1, keepdims=True) / per_row
        sums = np.bincount(inverse, weights=(clean - constants)[cells])
        means, before = sums / counts, means
        if np.abs(means - before).max(initial=0) < 1e-12:
            break
    return dict(zip(map(int, distinct), map(float, means), strict=True))


def spread_out(labels: Array, table: Table) -> Array:
    """The bias of every cell, 0 where a label is not in the table."""
    distinct, inverse = np.unique(labels, return_inverse=True)
    values = np.array([table.get(int(label), 0.0) for label in distinct])
    return np.asarray(values[inverse].reshape(labels.shape))
