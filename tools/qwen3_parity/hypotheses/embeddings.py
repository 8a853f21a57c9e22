"""Wrong embeddings: a factor, other rows of the table, something added, another form of the table."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.embedding_additions import (
    FIX,
    additions,
    all_ids,
    ids_of,
    rounded_unit,
    rows_of,
    stop_of,
    table_of,
)
from qwen3_parity.hypotheses.factors import named
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.observed import Seen, factor_between, likely, seen
from qwen3_parity.hypotheses.rounding import ROUNDED, bfloat16
from qwen3_spec import SpecConfig
from qwen3_spec.site import Result, Site


def embedding(site: Site) -> Iterator[Hypothesis]:
    """Wrong factors, rows and tables of an embedding."""
    what = seen(site)
    with np.errstate(all="ignore"):
        yield from likely(site, what, _factors(site, what))
        yield from likely(site, what, _other_ids())
        yield from likely(site, what, _other_tables())
        yield from likely(site, what, additions())
        if what is not None:
            yield from likely(site, what, _mapped(site, what))


_SCALES: tuple[tuple[str, Callable[[SpecConfig], float]], ...] = (
    ("sqrt(hidden_size)", lambda c: c.hidden_size**0.5),
    ("sqrt(hidden_size) in bfloat16", lambda c: float(bfloat16(np.array([c.hidden_size**0.5]))[0])),
    ("1 / sqrt(hidden_size)", lambda c: c.hidden_size**-0.5),
    ("hidden_size", lambda c: float(c.hidden_size)),
    ("1 / hidden_size", lambda c: 1 / c.hidden_size),
    ("sqrt(head_dim)", lambda c: c.head_dim**0.5),
    ("0: it is never filled", lambda c: 0.0),
)


def _factors(site: Site, what: Seen | None) -> Iterator[Hypothesis]:
    def times(factor: Callable[[SpecConfig], float], site: Site) -> Result:
        y = rows_of(site) * factor(site.config)
        return y, rounded_unit(y)

    for text, factor in _SCALES:
        yield Hypothesis("embedding.scaled", f"multiplies by {text}", FIX, partial(times, factor))
    if what is None:
        return
    truth = np.where(what.wrong, what.truth, 0)
    found = factor_between(truth, what.actual)
    words = named(found, site.config) or f"{found:.7g}"
    yield Hypothesis("embedding.scaled", f"multiplies by {words}", FIX, partial(times, lambda _: found), 1)


def _window(site: Site, start: int) -> Array | None:
    """The ids of as many slots as the step has, from another start; None outside of the text."""
    every, length = all_ids(site), ids_of(site).shape[1]
    return every[:, start : start + length] if 0 <= start <= every.shape[1] - length else None


def _behind(site: Site, by: int) -> Array | None:
    """The ids of the slot before (by = 1) or behind (-1), the edge repeated."""
    every, length = all_ids(site), ids_of(site).shape[1]
    at = np.clip(np.arange(stop_of(site) - length, stop_of(site)) - by, 0, every.shape[1] - 1)
    return every[:, at]


_OTHER_IDS: tuple[tuple[str, str, Callable[[Site, Array], Array | None], int], ...] = (
    ("embedding.other_row", "looks up id + 1", lambda s, i: i + 1, 0),
    ("embedding.other_row", "looks up id - 1", lambda s, i: i - 1, 0),
    ("embedding.other_row", "looks up ids from the other end of the table", lambda s, i: len(table_of(s)) - 1 - i, 1),
    ("embedding.clamped", "clamps ids to the table's last row but one", lambda s, i: np.minimum(i, len(table_of(s)) - 2), 1),
    ("embedding.clamped", "gives id 0 the row of id 1", lambda s, i: np.maximum(i, 1), 1),
    *(("embedding.wrapped", f"takes ids modulo {n}", lambda s, i, n=n: i % n, 1) for n in (2, 8, 10, 16, 32, 64, 100, 128, 256, 65536)),
    *(("embedding.clamped", f"clamps ids to {n}", lambda s, i, n=n: np.minimum(i, n), 1) for n in (31, 63, 127, 255, 32767, 65535, 151642, 151668)),
    ("embedding.other_slot", "looks up the token before (shifted right)", lambda s, i: _behind(s, 1), 0),
    ("embedding.other_slot", "looks up the token behind (shifted left)", lambda s, i: _behind(s, -1), 0),
    ("embedding.other_slot", "looks up the first tokens of the text at every step", lambda s, i: _window(s, 0), 0),
    ("embedding.other_slot", "looks up the last tokens of the text", lambda s, i: _window(s, all_ids(s).shape[1] - i.shape[1]), 1),
    ("embedding.other_slot", "has the tokens in reverse order", lambda s, i: i[:, ::-1], 1),
    ("embedding.other_slot", "repeats the step's first token", lambda s, i: np.broadcast_to(i[:, :1], i.shape), 1),
    ("embedding.other_slot", "repeats the step's last token", lambda s, i: np.broadcast_to(i[:, -1:], i.shape), 1),
    ("embedding.other_batch_row", "looks up the batch row before", lambda s, i: np.roll(i, 1, 0), 1),
    ("embedding.other_batch_row", "looks up the batch row behind", lambda s, i: np.roll(i, -1, 0), 1),
    ("embedding.other_batch_row", "looks up the first batch row for every row", lambda s, i: np.broadcast_to(i[:1], i.shape), 1),
)  # fmt: skip


def _other_ids() -> Iterator[Hypothesis]:
    def compute(change: Callable[[Site, Array], Array | None], site: Site) -> Result | None:
        ids = change(site, ids_of(site))
        if ids is None or ids.shape != ids_of(site).shape:
            return None
        return np.asarray(table_of(site)[ids % len(table_of(site))], np.float64), None

    for name, says, change, rank in _OTHER_IDS:
        yield Hypothesis(name, says, FIX, partial(compute, change), rank)


def _mapped(site: Site, what: Seen) -> Iterator[Hypothesis]:
    """The rows that recorded embeddings are, where every wrong one is a row of the table; or the ids that are zero."""
    ids, table = ids_of(site), table_of(site)
    moved: dict[int, int] = {}
    for cell in np.argwhere(what.wrong.any(axis=-1)):
        at = tuple(cell)
        rows = np.flatnonzero(table[:, 0] == what.actual[at][0])
        same = rows[(table[rows] == what.actual[at]).all(axis=-1)]
        if not len(same) or moved.setdefault(int(ids[at]), int(same[0])) != int(same[0]):
            break
    else:
        shown = ", ".join(f"{one} → {other}" for one, other in list(moved.items())[:6])

        def renamed(site: Site) -> Result:
            found = ids_of(site)
            for one, other in moved.items():
                found = np.where(ids_of(site) == one, other, found)
            return np.asarray(table_of(site)[found], np.float64), None

        yield Hypothesis("embedding.other_row", f"looks up other rows: {shown}", FIX, renamed, 3)
    lost = {int(ids[tuple(c)]) for c in np.argwhere(what.wrong.any(axis=-1)) if not what.actual[tuple(c)].any()}
    if lost:
        shown = ", ".join(map(str, sorted(lost)[:6]))
        gone = np.array(sorted(lost))

        def zeroed(site: Site) -> Result:
            return np.where(np.isin(ids_of(site), gone)[..., None], 0.0, rows_of(site)), None

        yield Hypothesis("embedding.zero_row", f"gives ids {shown} rows of zeros (a padding index)", FIX, zeroed, 1)


_OTHER_TABLES: tuple[tuple[str, str, Callable[[Array, Array], Array | None], int], ...] = (
    ("weight.transposed", "reads the table as if it were stored transposed", lambda t, i: t.reshape(t.shape[::-1]).T[i], 0),
    ("weight.reshaped", "reads the transposed table's bytes row by row",
     lambda t, i: np.ascontiguousarray(t.T).reshape(t.shape)[i] if t.size <= _LARGE else None, 1),
    ("weight.reversed", "has the channels in reverse order", lambda t, i: t[i][..., ::-1], 2),
    ("weight.shifted", "has the channels one to the right", lambda t, i: np.roll(t[i], 1, -1), 2),
    ("weight.negated", "has its rows negated", lambda t, i: -t[i], 2),
)  # fmt: skip
_LARGE = 1 << 24
"""Elements of a table that is not copied for a guess: that of a real vocabulary."""


def _other_tables() -> Iterator[Hypothesis]:
    def compute(change: Callable[[Array, Array], Array | None], site: Site) -> Result | None:
        found = change(table_of(site), ids_of(site))
        return None if found is None else (np.asarray(found, np.float64), None)

    def rounded(r: Callable[[Array], Array], site: Site) -> Result:
        return np.asarray(r(table_of(site)[ids_of(site)]), np.float64), None

    for name, says, change, rank in _OTHER_TABLES:
        yield Hypothesis(name, says, FIX, partial(compute, change), rank)
    for what, r in ROUNDED:
        yield Hypothesis("weight.rounded", f"has its rows rounded to {what}", FIX, partial(rounded, r), 0)
