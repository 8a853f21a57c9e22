"""Which of the encoder's keys the decoder sees, right and wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.mask_padding import MISREAD, fitted, of_memory, queries, rows
from qwen3_parity.mistakes.mask_parts import Rule, Slots


def _memory_keys(s: Slots) -> Array:
    assert s.memory is not None
    return np.arange(s.memory.shape[1])[None, None]


def _of_cells(rule: Callable[[Slots, Array], Array], *, padded: bool = True) -> Callable[[Slots], Array | None]:
    """A rule of the encoder's key slots `[1, 1, enc]`, together with the encoder's padding."""

    def visible(s: Slots) -> Array | None:
        if s.memory is None:
            return None
        cells = rule(s, _memory_keys(s))
        return np.asarray(cells & rows(s.memory)) if padded else np.asarray(cells)

    return visible


def _chunk_index(s: Slots) -> Array:
    return np.asarray(s.query - s.past)


def _shown(s: Slots, keys: Array) -> Array:
    return np.ones((1, s.length, keys.shape[2]), bool)


def _windowed(s: Slots, keys: Array) -> Array:
    return np.asarray(s.query - keys < s.window) if s.window is not None else _shown(s, keys)


_MEMORY_NAMES = {"keys_hidden": "mask.memory_hidden", "padding_ignored": "mask.memory_padding_ignored"}

MEMORY: tuple[Rule, ...] = (
    Rule("", "", of_memory(lambda r: r)),
    *(
        Rule(_MEMORY_NAMES.get(name, f"mask.{name}"), f"{says} among the encoder's keys", of_memory(change), steps)
        for name, says, change, steps in MISREAD
    ),
    Rule("mask.memory_causal", "is causal over the encoder's keys", _of_cells(lambda s, k: k <= s.query)),
    Rule("mask.memory_causal", "is causal over the encoder's keys, their own slot not included",
         _of_cells(lambda s, k: k < s.query), 1),
    Rule("mask.memory_causal", "is causal over the encoder's keys, by the index in the chunk",
         _of_cells(lambda s, k: k <= _chunk_index(s)), 1),
    Rule("mask.memory_causal", "is causal over the encoder's keys, aligned to the last one",
         _of_cells(lambda s, k: k <= s.query + k.shape[2] - s.real.shape[1]), 1),
    Rule("mask.memory_causal", "is causal and windowed over the encoder's keys",
         _of_cells(lambda s, k: (k <= s.query) & _windowed(s, k)), 1),
    Rule("mask.memory_anti_causal", "shows later keys alone among the encoder's",
         _of_cells(lambda s, k: k >= s.query), 1),
    Rule("mask.memory_anti_causal", "shows the encoder's keys from the query's slot on, not its own",
         _of_cells(lambda s, k: k > s.query), 2),
    Rule("mask.memory_windowed", "has the window over the encoder's keys", _of_cells(_windowed)),
    Rule("mask.memory_windowed", "has a window on both sides over the encoder's keys",
         _of_cells(lambda s, k: np.abs(s.query - k) <= s.window if s.window is not None else _shown(s, k)), 1),
    Rule("mask.memory_windowed", "has an exclusive window on both sides over the encoder's keys",
         _of_cells(lambda s, k: np.abs(s.query - k) < s.window if s.window is not None else _shown(s, k)), 1),
    Rule("mask.memory_windowed", "shows as many of the encoder's keys as the window, from the first",
         _of_cells(lambda s, k: k < (s.window or k.shape[2]) + 0 * s.query), 1),
    Rule("mask.memory_windowed", "shows as many of the encoder's keys as the window, up to the last",
         _of_cells(lambda s, k: k >= k.shape[2] - (s.window or k.shape[2]) + 0 * s.query), 1),
    Rule("mask.memory_windowed", "counts the window over both halves: the encoder's keys are the nearest",
         _of_cells(lambda s, k: (s.window or s.real.shape[1] + k.shape[2] + 1) > s.query - s.real.shape[1] - k), 2),
    Rule("mask.memory_hidden", "hides the encoder from decode steps",
         _of_cells(lambda s, k: np.bool_(s.past == 0) & _shown(s, k)), 1),
    Rule("mask.memory_hidden", "shows the encoder's first key alone",
         _of_cells(lambda s, k: (k == 0) & _shown(s, k)), 2),
    Rule("mask.memory_hidden", "shows the encoder's last key alone",
         _of_cells(lambda s, k: (k == k.shape[2] - 1) & _shown(s, k)), 2),
    Rule("mask.memory_one_to_one", "shows each query the encoder's key of its own slot",
         _of_cells(lambda s, k: k == s.query), 2),
    Rule("mask.padding_on_queries", "hides queries that are padding, not the encoder's padding",
         _of_cells(lambda s, k: queries(s) & _shown(s, k), padded=False)),
    Rule("mask.padding_exchanged", "hides the decoder's padding among the encoder's keys",
         lambda s: None if s.memory is None else rows(fitted(s.real, s.memory.shape[1]))),
    Rule("mask.padding_exchanged", "hides the decoder's padding, aligned to the end, among the encoder's keys",
         lambda s: None if s.memory is None else rows(fitted(s.real, s.memory.shape[1], at_end=True)), 1),
)  # fmt: skip
"""Which of the encoder's keys the decoder sees; the first is right."""
