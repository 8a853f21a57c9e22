"""Which keys a wrong context was made of: its own row's, others', a slot more, one less, one twice.

A context c of a head is the mean of values with weights n e^s, where n is how often a key was read: it solves
Σ n e^s (v - c) = 0 for every head and channel. That is linear in n, of which there is one for all heads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.attended import Attended
from qwen3_parity.diagnosis.findings.cells import floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.judge.indices import ranges

_MOST, _FIRST = 24, 5
"""Queries that are asked, and those of which one must be told for the others to be."""
_SPARE, _KEYS, _EACH = 4, 128, 4
"""Equations beyond the keys that are asked for; the most keys, and equations for each of them."""
_ALONE, _WHOLE = 0.02, 0.05
"""The smallest singular value by the next, where one answer alone solves them; how far a count may be from a whole."""
_TELLS = 1e-4
"""The least part of a context that tells whether its key was read."""
_SHARE = 0.3
"""The part of the queries that an answer must be there for."""
_NEAR = 4.0
"""How many limits a context made of the answer may be off: it has the rounding of scores, too."""


class _Pool(NamedTuple):
    """Keys that may have been read: row and slot (-1: zeros, -2: the sink), with their weights and values by head."""

    at: list[tuple[int, int]]
    weights: Array
    values: Array


class _Read(NamedTuple):
    """How often each key was read, by row and slot, in the place of the slots that should be; of one query.

    `by`: with the query of so many positions on; `first` is what slot 0 is called.
    """

    row: int
    query: int
    counts: dict[tuple[int, int], int]
    expected: frozenset[int]
    by: int = 0
    first: int = 0


_ZEROS, _SINK = -1, -2
_QUERIES = (0, -1, 1)
_ROWS = {-1: "the batch row before", 1: "the batch row behind"}


def keys_read(tap: WrongTap) -> Finding | None:
    """The keys that give the context of the wrong queries, where some were read that should not be, or not read."""
    usable, made_of = floats(tap), tap.attention()
    if usable is None or made_of is None or tap.truth.ndim != 4:
        return None
    scale = made_of.scale()
    wrong = np.argwhere(tap.wrong.any((2, 3)))
    if scale is None or not len(wrong):
        return None
    asked = wrong[np.linspace(0, len(wrong) - 1, min(len(wrong), _MOST)).astype(int)]
    read = list[_Read]()
    for number, (row, query) in enumerate(asked):
        answer = _answer(tap, made_of, scale, int(row), int(query)) if number < _FIRST or read else None
        read += [] if answer is None else [answer]
    if len(read) < max(1, _SHARE * len(asked)):
        return None
    return Finding("from.keys_read", _says(read, len(asked)), 1.0)


def _answer(tap: WrongTap, made_of: Attended, scale: float, row: int, query: int) -> _Read | None:
    context, limits = tap.actual[row, query], tap.limits[row, query]
    if not np.isfinite(context).all():
        return None
    expected = frozenset(np.flatnonzero(made_of.probs[row, :, query].any(0)).tolist())
    for by in _QUERIES:
        if not 0 <= query + by < made_of.queries.shape[2]:
            continue
        for pool in _pools(made_of, scale, row, query, by):
            counts = _solved(pool, context, limits, row, expected)
            if counts is not None and (by or counts != dict.fromkeys(_expected_keys(pool, row, expected), 1)):
                return _Read(row, query, counts, expected, by, made_of.first)
    return None


def _expected_keys(pool: _Pool, row: int, expected: frozenset[int]) -> list[tuple[int, int]]:
    return [at for at in pool.at if at[0] == row and (at[1] in expected or at[1] == _SINK)]


def _pools(made_of: Attended, scale: float, row: int, query: int, by: int) -> Iterator[_Pool]:
    """Its own row's keys with one of zeros; then each other row's beside them."""
    rows, slots = made_of.keys.shape[0], made_of.keys.shape[2]
    equations = made_of.queries.shape[1] * made_of.values.shape[3]
    for beside in ((), *((each,) for each in range(rows) if each != row)):
        visible = np.asarray(made_of.probs[row, :, query].any(0))
        order = sorted(range(slots), key=lambda slot: not visible[slot])  # of equal keys those that should be read
        at = _different(made_of, [(row, slot) for slot in order] + [(each, slot) for each in beside for slot in order])
        if len(at) > _KEYS or len(at) + 2 + _SPARE > equations:
            continue
        keys, values = (
            np.repeat(np.stack([part[each, :, slot] for each, slot in at], 1), made_of.group, 0)
            for part in (made_of.keys, made_of.values)
        )
        scores = scale * (keys @ made_of.queries[row, :, query + by, :, None])[..., 0]
        scores = np.concatenate([scores, np.zeros((len(scores), 1))], 1)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        values = np.concatenate([values, np.zeros((len(values), 1, values.shape[2]))], 1)
        at = [*at, (row, _ZEROS)]
        probs = made_of.probs[row, :, query]
        read = [number for number, (each, slot) in enumerate(at) if each == row and slot >= 0 and bool(visible[slot])]
        rest = weights[:, read].sum(1) * (1 / np.maximum(probs.sum(1), 1e-30) - 1)
        if (rest > 1e-6 * weights.sum(1)).any():  # what the softmax divides by beside its keys
            weights = np.concatenate([weights, rest[:, None]], 1)
            values = np.concatenate([values, np.zeros((len(values), 1, values.shape[2]))], 1)
            at = [*at, (row, _SINK)]
        yield _Pool(at, weights, values)


def _different(made_of: Attended, at: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Keys without those that are an earlier one again, as padding's are, and those of zeros."""
    known, different = set[bytes](), list[tuple[int, int]]()
    for row, slot in at:
        key = np.concatenate([made_of.keys[row, :, slot], made_of.values[row, :, slot]])
        rounded = key.astype(np.float32).tobytes()
        if rounded not in known and key.any():
            known.add(rounded)
            different.append((row, slot))
    return different


def _solved(
    pool: _Pool, context: Array, limits: Array, row: int, expected: frozenset[int]
) -> dict[tuple[int, int], int] | None:
    """How often each key of a pool was read; None where no whole numbers, or several, give the context."""
    terms = pool.weights[..., None] * (pool.values - context[:, None])
    matrix = terms.swapaxes(1, 2).reshape(-1, len(pool.at))
    matrix = matrix[:: max(1, len(matrix) // (_EACH * len(pool.at)))]
    sizes = np.linalg.norm(matrix, axis=0)
    part = (pool.weights / pool.weights.sum(1, keepdims=True)).max(0)
    tells = (part > _TELLS) & (sizes > 0)
    if tells.sum() < 1:
        return None
    _, singular, axes = np.linalg.svd(matrix[:, tells] / sizes[tells], full_matrices=False)
    if len(singular) > 1 and singular[-1] > _ALONE * singular[-2]:
        return None
    counts = axes[-1] / sizes[tells]
    counts = counts * np.sign(counts[np.argmax(np.abs(counts) * part[tells])])
    large = counts > 0.3 * counts.max()
    counts = counts / counts[large].min()
    whole = np.rint(counts)
    if np.abs(counts - whole).max() > _WHOLE or whole.min() < 0 or whole.sum() == 0:
        return None
    right_keys = _expected_keys(pool, row, expected)
    every = np.array([float(at in right_keys) for at in pool.at])
    every[tells] = whole
    sums = (pool.weights * every).sum(1)
    result = (pool.weights[..., None] * every[:, None] * pool.values).sum(1) / sums[:, None]
    if (np.abs(result - context) > _NEAR * limits).any():
        return None
    return {at: int(count) for at, count in zip(pool.at, every, strict=True) if count or at[1] == _SINK}


def _says(read: Sequence[_Read], asked: int) -> str:
    """What the first wrong query reads and should, and of how many that can be said alike."""
    kinds = [_kind(each) for each in read]
    (kind, times), first = Counter(kinds).most_common(1)[0], read[0]
    if times == len(read) and kind:
        return f"{kind}, in {times} of {asked} wrong queries that were asked; {_in_full(first)}"
    return f"{_in_full(first)}; {len(read)} of {asked} wrong queries that were asked are told so"


def _kind(each: _Read) -> str:
    """What is done, in words that may be the same for other queries; "" for several things at once."""
    if each.by:
        return f"it has the query of the position {'before' if each.by < 0 else 'behind'}"
    slots = {slot: count for (row, slot), count in each.counts.items() if row == each.row and slot >= 0}
    rows = {row - each.row for row, _ in each.counts if row != each.row}
    if rows and not slots:
        return f"it reads the keys of {_ROWS.get(next(iter(rows)), 'another batch row')}"
    parts = ["it reads keys of another batch row beside its own"] if rows else []
    return " and ".join([*parts, *_of_its_row(each, slots), *_of_no_slot(each)])


def _of_its_row(each: _Read, slots: dict[int, int]) -> Iterator[str]:
    """What is said of keys of the query's own row, read so many times by slot."""
    missing, more = sorted(each.expected - slots.keys()), sorted(slots.keys() - each.expected)
    newest, oldest = max(each.expected, default=0), min(each.expected, default=0)
    if missing:
        at = "its newest key" if missing == [newest] else "its oldest key" if missing == [oldest] else ""
        yield f"it does not read {at or f'{len(missing)} of its keys'}"
    if more:
        ahead = min(more) > newest
        yield f"it reads {len(more)} key{'s' * (len(more) > 1)} {'ahead' if ahead else 'that are hidden'}"
    if twice := sum(count > 1 for count in slots.values()):
        yield f"it reads {twice} of its keys twice"


def _of_no_slot(each: _Read) -> Iterator[str]:
    if zeros := each.counts.get((each.row, _ZEROS), 0):
        yield f"it reads {zeros} key{'s' * (zeros > 1)} of zeros more"
    if each.counts.get((each.row, _SINK)) == 0:
        yield "it leaves out what the softmax divides by beside its keys (a sink)"


def _in_full(each: _Read) -> str:
    rows = sorted({row for row, slot in each.counts if slot >= 0})
    said = []
    for row in rows:
        slots = [slot for at, slot in each.counts if at == row and slot >= 0]
        times = [slot for slot in slots if each.counts[row, slot] > 1]
        of = "" if row == each.row else f" of batch row {row}"
        said.append(f"keys {_called(each, slots)}{of}" + (f" ({_called(each, times)} more than once)" if times else ""))
    if zeros := each.counts.get((each.row, _ZEROS), 0):
        said.append(f"{zeros} of zeros")
    should = _called(each, each.expected)
    return f"batch row {each.row}, query {each.query} reads {' and '.join(said) or 'no key'} where keys {should} belong"


def _called(each: _Read, slots: Iterable[int]) -> str:
    return ranges(sorted(each.first + slot for slot in slots))
