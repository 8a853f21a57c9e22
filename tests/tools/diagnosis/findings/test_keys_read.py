"""Which keys a wrong context was made of is read off it, where queries, keys and values are known.

It runs `findings.attended`, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from wrong_slices import slice_of

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings import Finding, WrongTap
from qwen3_parity.diagnosis.findings.attended import Attended, attended
from qwen3_parity.diagnosis.findings.numbers.keys_read import keys_read

ROWS, HEADS, KV, LENGTH, DIM = 3, 6, 2, 7, 10
SCALE = 0.3
draws = np.random.Generator(np.random.PCG64(11))
QUERIES = draws.standard_normal((ROWS, HEADS, LENGTH, DIM))
KEYS, VALUES = draws.standard_normal((2, ROWS, KV, LENGTH, DIM))
CAUSAL = np.broadcast_to(np.tri(LENGTH), (ROWS, LENGTH, LENGTH))
Counts = Callable[[int, int], dict[tuple[int, int], float]]


SINKS = np.linspace(0.5, 3, HEADS)
NONE = np.zeros(HEADS)


def context(counts: Counts, sinks: Array = NONE, *, by: int = 0) -> Array:
    """`[batch, query, heads, head_dim]` where each query reads a key, by row and slot, so many times."""
    result = np.zeros((ROWS, LENGTH, HEADS, DIM))
    for row, query, head in np.ndindex(ROWS, LENGTH, HEADS):
        kv, total = head // (HEADS // KV), sinks[head]
        for (at, slot), count in counts(row, query).items():
            key, value = (KEYS[at, kv, slot], VALUES[at, kv, slot]) if slot >= 0 else (np.zeros(DIM), np.zeros(DIM))
            weight = count * np.exp(SCALE * QUERIES[row, head, max(query + by, 0)] @ key)
            result[row, query, head] += weight * value
            total += weight
        result[row, query, head] /= total
    return result


def its_own(row: int, query: int) -> dict[tuple[int, int], float]:
    return {(row, slot): 1.0 for slot in range(query + 1)}


def said(wrong: Array, sinks: Array = NONE, probs: Array | None = None, first: int = 0) -> Finding | None:
    truth, wrong = context(its_own, sinks), wrong.astype(np.float32).astype(np.float64)
    if probs is None:
        scores = np.exp(SCALE * QUERIES @ np.repeat(KEYS, HEADS // KV, 1).swapaxes(2, 3)) * CAUSAL[:, None]
        probs = scores / (scores.sum(-1, keepdims=True) + sinks[:, None, None])
    made_of = attended(QUERIES, KEYS, VALUES, probs)
    assert made_of is not None
    made_of = replace(made_of, first=first)
    unit = np.full(truth.shape, 2.0**-22)
    tap = WrongTap(
        ("context", 1), ("batch", "query", "heads", "head_dim"), frozenset({"context"}), wrong, truth, unit,
        np.ones(truth.shape, bool), np.abs(wrong - truth) > 8 * unit, 8, lambda name, step: None,
        attention=lambda: made_of,
    )  # fmt: skip
    with np.errstate(all="ignore"):
        return keys_read(tap)


MISTAKES: dict[str, tuple[Counts, str]] = {
    "newest": (lambda row, query: {k: c for k, c in its_own(row, query).items() if k[1] < max(query, 1)},
               "it does not read its newest key, in"),
    "ahead": (lambda row, query: its_own(row, min(query + 1, LENGTH - 1)), "it reads 1 key ahead, in"),
    "another row": (lambda row, query: {((row - 1) % ROWS, slot): 1.0 for slot in range(query + 1)},
                    "batch row 0, query 1 reads keys 0–1 of batch row 2 where keys 0–1 belong"),
    "twice": (lambda row, query: {**its_own(row, query), (row, 0): 2.0}, "it reads 1 of its keys twice, in"),
    "a key of zeros": (lambda row, query: {**its_own(row, query), (row, -1): 1.0}, "it reads 1 key of zeros more, in"),
    "a block again": (lambda row, query: {(row, slot % 4): 1.0 + (query >= slot % 4 + 4) for slot in range(query + 1)},
                      "where keys 0–4 belong"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_keys_that_were_read_are_told(mistake: str) -> None:
    counts, words = MISTAKES[mistake]
    finding = said(context(counts))
    assert finding is not None and (finding.name, finding.weight) == ("from.keys_read", 1.0)
    assert words in finding.says, finding.says


def test_keys_of_a_window_are_called_by_their_slots() -> None:
    counts, _ = MISTAKES["newest"]
    finding = said(context(counts), first=4)
    assert finding is not None and finding.says.endswith("query 2 reads keys 4–5 where keys 4–6 belong")


def test_a_golden_with_a_graph_says_which_slots_a_window_has() -> None:
    """Layer 0 of Gemma 3 has a window of 4, layer 1 has none."""
    first = dict[tuple[int, int], int]()
    for layer, step in ((0, 0), (0, 1), (0, 2), (1, 2)):
        made_of = slice_of("model/gemma3", f"model.layers.{layer}.self_attn.context", lambda y: 2 * y, step).attention()
        assert made_of is not None
        first[layer, step] = made_of.first
    assert first == {(0, 0): 0, (0, 1): 2, (0, 2): 3, (1, 2): 0}


def test_the_query_of_the_position_before_is_told() -> None:
    finding = said(context(its_own, by=-1))
    assert finding is not None and finding.says.startswith("it has the query of the position before, in")


def test_a_sink_that_is_left_out_is_told() -> None:
    finding = said(context(its_own), SINKS)
    assert finding is not None and "leaves out what the softmax divides by beside its keys" in finding.says
    wrong_row = said(context(MISTAKES["newest"][0], SINKS), SINKS)
    assert wrong_row is not None and "it does not read its newest key" in wrong_row.says


@pytest.mark.parametrize(
    "wrong",
    [
        1.1 * context(its_own),
        context(its_own) + 0.1,
        context(lambda row, query: {(row, slot): 1.0 + 0.3 * slot for slot in range(query + 1)}),
        np.roll(context(its_own), 1, axis=2),
        context(its_own),
    ],
    ids=["scaled", "shifted", "weighed otherwise", "heads rolled", "right"],
)
def test_other_mistakes_read_no_other_keys(wrong: Array) -> None:
    assert said(wrong) is None


def test_probabilities_that_are_no_softmax_of_products_tell_nothing() -> None:
    assert (
        said(context(MISTAKES["ahead"][0]), probs=np.broadcast_to(CAUSAL[:, None] / 7, (ROWS, HEADS, LENGTH, LENGTH)))
        is None
    )
    assert attended(QUERIES, None, VALUES, None) is None
    assert attended(QUERIES, KEYS[:, :, :3], VALUES, np.ones((ROWS, HEADS, LENGTH, LENGTH))) is None
    assert isinstance(attended(QUERIES, KEYS, VALUES, np.ones((ROWS, HEADS, LENGTH, LENGTH))), Attended)
