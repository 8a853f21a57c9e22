"""Arrays that have the real tokens alone, row behind row and no padding: laid into the slots of the case."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.graph_steps import Wanted, fits
from qwen3_parity.recording.graph_taps import general
from qwen3_parity.recording.slots import Forward
from qwen3_parity.recording.tap_axes import Part, lay_out, reading_of

PAGE = "docs/dumps.md"
Orders = MutableMapping[str, tuple[str, ...]]
"""The axes of taps whose arrays have real tokens alone, by their names with {layer} in them."""


def real_tokens(case: Case, forward: Forward) -> Array | None:
    """The slots of a forward that are no padding, `[batch, query]` bool; None where no mask of the case says it."""
    prefix = "decoder_" if case.is_graph and case.ids.startswith("decoder_") else ""
    mask = case.arrays.get(f"{prefix}attention_mask")
    if mask is None or mask.ndim != 2 or mask.shape[1] < forward.stop:
        return None
    return np.asarray(mask[:, forward.first : forward.stop] != 0)


def as_tokens(case: Case, forward: Forward, shape: Sequence[int]) -> str:
    """What is said behind a shape that has an axis of as many as a forward has real tokens; empty for another."""
    real = real_tokens(case, forward)
    if real is None or real.all() or int(real.sum()) not in shape:
        return ""
    return f": {int(real.sum())} tokens are the real ones of {real.size} slots"


def packed_order(shape: Sequence[int], parts: Sequence[Part], real: Array, order: Sequence[str]) -> tuple[str, ...]:
    """What each axis of an array of real tokens alone is, "query" for the tokens; empty where that is no reading of it.

    `order` are its axes where they are known. A shape that can be read in two ways is read in none.
    """
    tokens = _of_tokens(parts, real)
    if not tokens:
        return ()
    try:
        kinds = iter(reading_of(shape, tokens, ["query" if kind == "row" else kind for kind in order]))
    except ValueError:
        return ()
    return tuple("channel" if size == 1 else next(kinds) for size in shape)


def in_their_slots(
    orders: Orders, tap: str, array: Array, layout: Wanted, real: Array, order: tuple[str, ...], *, by_name: bool
) -> tuple[Array, tuple[str, ...]]:
    """A tap and its axes as they are, or laid into its slots where it has real tokens alone.

    What a forward with padding says of an array's axes is so in every forward.
    """
    packed = orders.get(general(tap)) and packed_order(array.shape, layout.parts, real, orders[general(tap)])
    if not packed:
        if fits(array.shape, tap, layout, order, by_name=by_name):
            return array, order
        packed = packed_order(array.shape, layout.parts, real, order)
    if not packed:
        return array, order
    orders[general(tap)] = packed
    return _in_slots(array, layout.parts, real, packed), tuple(axis.kind for axis in layout.parts)


def _in_slots(array: Array, parts: Sequence[Part], real: Array, order: Sequence[str]) -> Array:
    """An array of real tokens alone with the axes of a tap, 0 in padding, which nobody judges."""
    laid, kinds = lay_out(array, _of_tokens(parts, real), order), [part.kind for part in parts]
    slots = np.zeros([part.size for part in parts], array.dtype)
    tokens = [kind for kind in kinds if kind != "batch"].index("query")
    np.moveaxis(slots, (kinds.index("batch"), kinds.index("query")), (0, 1))[real] = np.moveaxis(laid, tokens, 0)
    return slots


def _of_tokens(parts: Sequence[Part], real: Array) -> list[Part]:
    """A tap's parts with the tokens in the place of its rows' positions; none for a tap that has no such rows."""
    sizes = {part.kind: part.size for part in parts}
    if "key" in sizes or (sizes.get("batch"), sizes.get("query")) != real.shape:
        return []
    return [Part("query", int(real.sum())) if part.kind == "query" else part for part in parts if part.kind != "batch"]
