"""When the batch rows and positions of wrong taps are wrong: what the tokens there have in common."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, Recording, pb
from qwen3_parity.diagnosis import facts
from qwen3_parity.diagnosis.when import Fact, When, listed, when

_PAIRS = 1 << 22
"""Pairs of slots up to which ids are compared with one another."""


class Cells(NamedTuple):
    """The cells of a wrong tap: `wrong` and `judged`, bool of its shape."""

    name: str
    step: int
    axes: Sequence[str]
    wrong: Array
    judged: Array


class Separated(NamedTuple):
    """The indices that are `judged`, bool `wrong` among them, and what separates these; None where nothing does."""

    judged: Array
    wrong: Array
    when: When | None


def in_encoder(tap: Cells, golden: Recording) -> bool:
    """Whether a tap's positions are the encoder's: in its own stack, and where the decoder reads it."""
    if golden.case.mode != pb.GRAPH and "encoder_" in tap.name.rpartition(".")[2]:
        return True
    return not golden.case.steps or ("encoder" in tap.name and "decoder" not in tap.name)


def of_positions(taps: Sequence[Cells], rest: Collection[int], golden: Recording) -> dict[str, Separated]:
    """What separates the wrong rows and positions of some taps of a place from the right ones, by the axis.

    "batch", "query" or "key"; "row" is of both together, where rows are not all wrong at the same positions. `rest` are
    steps whose taps are right altogether.
    """
    grid = _grid(taps, rest, golden)
    if grid is None:
        return {}
    tokens, name, wrong, judged = grid
    steps = [] if in_encoder(taps[0], golden) else list(golden.case.steps)
    slots = _of_slots(wrong.shape[1], steps)
    rows, columns = (np.asarray(wrong.any(axis=axis)) for axis in (1, 0))
    product = np.array_equal(wrong, np.outer(rows, columns) & judged)
    batch, used = np.flatnonzero(judged.any(axis=1)), np.flatnonzero(judged.any(axis=0))
    of_rows = when(rows[batch], at_indices(batch, facts.of_rows(tokens.real))) if product else None
    if product and name == "query" and _are_of_steps(columns[used], used, steps):
        return {"batch": Separated(batch, rows[batch], of_rows)} if of_rows else {}
    along = when(columns[used], at_indices(used, slots)) if product else None
    if along is None or not along.rule:
        bits = listed(rows[batch]) + listed(columns[used]) if product else math.inf
        rule = when(wrong[judged], _of_cells(tokens, () if product else slots, judged, golden), bits)
        if rule is not None and rule.rule:
            return {"row": Separated(np.flatnonzero(judged), wrong[judged], rule)}
    separated = {"batch": Separated(batch, rows[batch], of_rows)} if along or of_rows else {}
    return {**separated, name: Separated(used, columns[used], along)} if along and along.rule else separated


def _of_slots(size: int, steps: Sequence[int]) -> list[Fact]:
    return [*facts.of_indices(size), *(facts.of_slots(steps) if sum(steps) == size else ())]


def _are_of_steps(wrong: Array, at: Array, steps: Sequence[int]) -> bool:
    """Whether each step is wrong at all of these slots or at none, and a step is right: then steps say it, plainly."""
    if wrong.all():
        return False
    step_of = _step_of(at, steps)
    return all(len(set(wrong[step_of == step])) == 1 for step in set(step_of))


def _step_of(slots: Array, steps: Sequence[int]) -> Array:
    return np.searchsorted(np.cumsum(steps), slots, side="right")


def at_indices(indices: Array, known: Sequence[Fact]) -> list[Fact]:
    """Facts of some of the indices that they are of."""
    return [fact._replace(holds=fact.holds[indices]) for fact in known]


def _grid(
    taps: Sequence[Cells], rest: Collection[int], golden: Recording
) -> tuple[facts.Tokens, str, Array, Array] | None:
    """The tokens, the axis that has them, and which are wrong and judged in some tap, or in the steps `rest`."""
    encoder = in_encoder(taps[0], golden)
    tokens = facts.tokens_of(golden, encoder)
    axis = next((name for name in ("query", "key") if name in taps[0].axes), None)
    if tokens is None or axis is None:
        return None
    wrong, judged = np.zeros_like(tokens.real), np.zeros_like(tokens.real)
    for tap in taps:
        if tap.wrong.ndim != len(tap.axes):
            return None
        across = tuple(place for place, name in enumerate(tap.axes) if name not in ("batch", axis))
        bad, counts = tap.wrong.any(axis=across), tap.judged.any(axis=across)
        if bad.ndim != 2 or tap.axes[0] != "batch":  # axes of somebody's own
            return None
        rows, size = bad.shape
        stop = size if encoder or axis == "key" else sum(golden.case.steps[: tap.step + 1])
        if rows != len(wrong) or not size <= stop <= wrong.shape[1]:
            return None
        wrong[:, stop - size : stop] |= bad
        judged[:, stop - size : stop] |= counts
    if axis == "query" and not encoder:
        judged |= tokens.real & np.isin(_step_of(np.arange(wrong.shape[1]), golden.case.steps), list(rest))
    return tokens, axis, wrong, judged


def _of_cells(tokens: facts.Tokens, slots: Sequence[Fact], judged: Array, golden: Recording) -> list[Fact]:
    """Facts of the judged tokens, with those of `slots` also of their slots and rows, `[cell]`."""
    batch, size = judged.shape
    known = [] if batch * size * size > _PAIRS else facts.of_tokens(tokens, facts.numbers_of(golden)[0])
    for says, otherwise, bits, holds in facts.of_rows(tokens.real) if slots else ():
        holds = np.repeat(holds[:, None], size, axis=1)
        known.append(Fact(f"of batch rows {says}", f"of batch rows {otherwise}", bits, holds))
    known += [fact._replace(holds=np.repeat(fact.holds[None], batch, axis=0)) for fact in slots]
    return [fact._replace(holds=fact.holds[judged]) for fact in known]
