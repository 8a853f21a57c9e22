"""Which of the stack's own keys a query may see, padding aside: causality and windows, right and wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.mask_parts import Rule, Slots

Bound = Callable[[Slots], "int | None"]
"""A window in slots; None = no window."""


def _far(s: Slots, window: int | None, past: int = 0) -> Array:
    """Keys inside the window of the stack's own rule, causality aside."""
    distance = s.distance + past
    if window is None:
        return np.ones(distance.shape, bool)
    return np.asarray(np.abs(distance) <= window if s.encoder else distance < window)


def _within(bound: Bound, past: int = 0) -> Callable[[Slots], Array]:
    """The stack's own rule with another window, the queries standing `past` slots later."""

    def visible(s: Slots) -> Array:
        near = _far(s, bound(s), past)
        return near if s.encoder else np.asarray(near & (s.distance + past >= 0))

    return visible


def _wider(more: int) -> Bound:
    return lambda s: None if s.window is None else max(s.window + more, 0)


def _of_layer(which: Callable[[Slots], bool]) -> Bound:
    return lambda s: s.width if which(s) else None


def _cells(rule: Callable[[Slots, Array], Array]) -> Callable[[Slots], Array]:
    """A rule of the distance, inside the right window."""
    return lambda s: np.asarray(rule(s, s.distance) & _far(s, s.window))


def _in_window(rule: Callable[[Slots, Array, int], Array]) -> Callable[[Slots], Array]:
    """A rule of distance and window, for layers that have a window; the others are right."""

    def visible(s: Slots) -> Array:
        if s.window is None:
            return _within(lambda s: None)(s)
        cells = rule(s, s.distance, s.window)
        return np.asarray(cells if s.encoder else cells & (s.distance >= 0))

    return visible


def _sided(side: str, by: int) -> Callable[[Slots], Array | None]:
    """The encoder's window with another number of keys on one side."""
    left, right = (by, 0) if side == "left" else (0, by)
    window = _in_window(lambda s, d, w: (d <= w + left) & (-d <= w + right))
    return lambda s: window(s) if s.encoder else None


def _by_blocks(size: int) -> Callable[[Slots], Array]:
    return _cells(lambda s, d: (s.query // size >= s.key // size) | np.bool_(s.encoder))


def _chunk(s: Slots) -> Array:
    """Query index within this call minus key slot."""
    return np.asarray(s.distance - s.past)


def _counted(s: Slots) -> Array:
    """Distance in tokens, padding not counted, `[batch, query, key]`."""
    place = np.cumsum(s.real, axis=1)
    return np.asarray(place[:, s.past :, None] - place[:, None])


NEAR: tuple[Rule, ...] = (
    Rule("", "", _within(lambda s: s.window)),
    Rule("mask.bidirectional", "lets queries see later keys", lambda s: _far(s, s.window) if not s.encoder else None),
    Rule("mask.bidirectional", "lets queries see later keys, and no window counts",
         lambda s: np.ones(s.distance.shape, bool) if not s.encoder else None, 1),
    Rule("mask.bidirectional", "lets queries of a later chunk see later keys",
         lambda s: _far(s, s.window) if s.past and not s.encoder else None, 1),
    Rule("mask.causal", "is causal", _cells(lambda s, d: d >= 0)),
    Rule("mask.causal", "is causal, with the decoder's window",
         _in_window(lambda s, d, w: (d >= 0) & (d < w) if s.encoder else d < w)),
    Rule("mask.past_hidden", "hides what the steps before left in the cache",
         _cells(lambda s, d: (s.key >= s.past) & ((d >= 0) | np.bool_(s.encoder)))),
    Rule("mask.anti_causal", "lets queries see later keys alone", _cells(lambda s, d: d <= 0)),
    Rule("mask.anti_causal", "lets queries see later keys alone, not their own", _cells(lambda s, d: d < 0)),
    Rule("mask.off_by_one", "hides every query's own key", _cells(lambda s, d: d != 0 if s.encoder else d > 0)),
    Rule("mask.off_by_one", "shows one later key", _cells(lambda s, d: (d >= -1) | np.bool_(s.encoder))),
    Rule("mask.off_by_one", "shows two later keys", _cells(lambda s, d: (d >= -2) | np.bool_(s.encoder)), 1),
    Rule("mask.off_by_one", "hides the last two keys", _cells(lambda s, d: (d >= 2) | np.bool_(s.encoder)), 1),
    Rule("mask.off_by_one", "counts one past slot too many", _within(lambda s: s.window, 1), 1),
    Rule("mask.off_by_one", "counts one past slot too few", _within(lambda s: s.window, -1), 1),
    Rule("mask.first_key_hidden", "hides slot 0",
         lambda s: np.asarray(_within(lambda s: s.window)(s) & (s.key > 0)), 1),
    *(Rule("mask.block_causal", f"is causal by blocks of {size}: later keys of the query's own block are visible",
           _by_blocks(size), 1) for size in (2, 3, 4, 8, 16, 32, 64, 128)),
    Rule("mask.top_left", "aligns the triangle to slot 0: a chunk ignores its past",
         _cells(lambda s, d: (_chunk(s) >= 0) | np.bool_(s.encoder))),
    Rule("mask.top_left", "aligns triangle and window to slot 0: a chunk ignores its past",
         lambda s: np.asarray((_chunk(s) >= 0) & (_chunk(s) < (s.window or s.real.shape[1] + 1))), 1),
    Rule("mask.window_missing", "has no window", _within(lambda s: None)),
    Rule("mask.window_off_by_one", "has a window of one more", _within(_wider(1))),
    Rule("mask.window_off_by_one", "has a window of one less", _within(_wider(-1))),
    Rule("mask.window_off_by_one", "has a window of two more", _within(_wider(2)), 1),
    Rule("mask.window_off_by_one", "has a window of two less", _within(_wider(-2)), 1),
    *(Rule("mask.window_off_by_one", f"has one key {more} on the {side} side of its window", _sided(side, by), 1)
      for more, by in (("less", -1), ("more", 1)) for side in ("left", "right")),
    Rule("mask.window_size", "has twice the window", _within(lambda s: s.window and 2 * s.window), 1),
    Rule("mask.window_size", "has half the window", _within(lambda s: s.window and s.window // 2), 1),
    Rule("mask.window_size", "has half the window, rounded up", _within(lambda s: s.window and (s.window + 1) // 2), 1),
    Rule("mask.window_split", "splits the window over both sides: (W + 1) // 2 keys to the left, W // 2 to the right",
         _in_window(lambda s, d, w: (d < (w + 1) // 2) & (d >= -(w // 2)))),
    Rule("mask.window_split", "splits the window over both sides: W // 2 keys on either",
         _in_window(lambda s, d, w: (d <= w // 2) & (d >= -((w - 1) // 2))), 1),
    Rule("mask.window_split", "limits the window on the left alone", _in_window(lambda s, d, w: d <= w), 1),
    Rule("mask.window_split", "limits the window on the right alone", _in_window(lambda s, d, w: d >= -w), 1),
    Rule("mask.window_everywhere", "has a window on a layer of full attention", _within(lambda s: s.width)),
    Rule("mask.window_wrong_layers", "has the window on the other layers",
         _within(_of_layer(lambda s: not s.layers[s.layer])), 1),
    Rule("mask.window_wrong_layers", "has the window of the layer before",
         _within(_of_layer(lambda s: s.layers[max(s.layer - 1, 0)])), 2),
    Rule("mask.window_wrong_layers", "has the window of the layer behind",
         _within(_of_layer(lambda s: s.layers[min(s.layer + 1, len(s.layers) - 1)])), 2),
    Rule("mask.window_wrong_layers", "has the first layer's window", _within(_of_layer(lambda s: s.layers[0])), 2),
    Rule("mask.window_wrong_layers", "has the last layer's window", _within(_of_layer(lambda s: s.layers[-1])), 2),
    Rule("mask.window_relative", "counts the window from the query's index in its chunk",
         _in_window(lambda s, d, w: _chunk(s) <= w if s.encoder else _chunk(s) < w)),
    Rule("mask.window_relative", "counts the window from the end of the chunk",
         _in_window(lambda s, d, w: s.real.shape[1] - 1 - s.key - 0 * d < w), 1),
    Rule("mask.window_relative", "counts the window from the start of the chunk",
         _in_window(lambda s, d, w: s.past - s.key - 0 * d < w), 1),
    Rule("mask.window_positions", "counts the window in tokens, not in slots: padding does not use it up",
         _in_window(lambda s, d, w: np.abs(_counted(s)) <= w if s.encoder else _counted(s) < w), 1),
    Rule("mask.window_blocks", "cuts the sequence into blocks of the window's size",
         _in_window(lambda s, d, w: s.query // w == s.key // w), 1),
    Rule("mask.window_inverted", "shows what is outside the window",
         _in_window(lambda s, d, w: np.abs(d) > w if s.encoder else d >= w), 1),
)  # fmt: skip
"""Which of the stack's own keys a query may see, padding aside; the first is right."""
