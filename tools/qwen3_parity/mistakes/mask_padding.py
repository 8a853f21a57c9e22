"""Which keys are padding, right and wrong: for the stack's own keys, and mistakes that fit the encoder's as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.mask_parts import Rule, Slots


def rows(real: Array) -> Array:
    return real[:, None]


def leading(real: Array) -> Array:
    """Padding before the first token, `[batch, slot]`."""
    return np.asarray(np.cumsum(real, axis=1) == 0)


def trailing(real: Array) -> Array:
    return leading(real[:, ::-1])[:, ::-1]


def fitted(real: Array, length: int, *, at_end: bool = False) -> Array:
    """A padding mask cut, or filled up with tokens, to another length."""
    missing = max(length - real.shape[1], 0)
    filler = np.ones((real.shape[0], missing), bool)
    return real[:, -length:] if at_end and not missing else np.concatenate([real, filler], axis=1)[:, :length]


def _moved(real: Array, by: int, *, filled: bool = True) -> Array:
    """`real` moved along the slots, tokens filled in, or padding."""
    moved = np.full_like(real, filled)
    if by > 0:
        moved[:, by:] = real[:, :-by]
    elif by < 0:
        moved[:, :by] = real[:, -by:]
    return moved


MISREAD: tuple[tuple[str, str, Callable[[Array], Array], int], ...] = (
    ("padding_ignored", "ignores padding", lambda r: np.ones_like(r), 0),
    ("inverted", "takes 1 for padding", lambda r: ~r, 0),
    ("other_row", "uses the padding of the row before", lambda r: np.roll(r, 1, 0), 0),
    ("other_row", "uses the padding of the row behind", lambda r: np.roll(r, -1, 0), 0),
    ("other_row", "uses the first row's padding for every row", lambda r: np.broadcast_to(r[:1], r.shape), 0),
    ("other_row", "uses the last row's padding for every row", lambda r: np.broadcast_to(r[-1:], r.shape), 1),
    ("other_row", "uses the rows' padding in reverse order", lambda r: r[::-1], 1),
    ("other_row", "combines the padding of all rows", lambda r: np.broadcast_to(r.all(0), r.shape), 1),
    ("other_row", "hides only what is padding in all rows", lambda r: np.broadcast_to(r.any(0), r.shape), 1),
    ("padding_ignored", "hides padding on the left alone", lambda r: ~leading(r), 1),
    ("padding_ignored", "hides padding on the right alone", lambda r: ~trailing(r), 1),
    ("padding_ignored", "shows padding inside the text", lambda r: ~leading(r) & ~trailing(r), 1),
    ("padding_ignored", "shows padding on the left", lambda r: r | leading(r), 1),
    ("padding_ignored", "shows padding on the right", lambda r: r | trailing(r), 1),
    ("padding_side", "takes padding to be on the right: shows as many slots as there are tokens, from the first",
     lambda r: np.arange(r.shape[1]) < r.sum(1, keepdims=True), 1),
    ("padding_side", "takes padding to be on the left: shows as many slots as there are tokens, up to the last",
     lambda r: np.arange(r.shape[1])[::-1] < r.sum(1, keepdims=True), 1),
    ("padding_reversed", "reads the padding mask from its end", lambda r: r[:, ::-1], 1),
    ("padding_shifted", "has the padding one slot late", lambda r: _moved(r, 1), 1),
    ("padding_shifted", "has the padding one slot early", lambda r: _moved(r, -1), 1),
    ("padding_shifted", "has the padding one slot late, slot 0 too", lambda r: _moved(r, 1, filled=False), 2),
    ("padding_shifted", "has the padding one slot early, the last slot too",
     lambda r: _moved(r, -1, filled=False), 2),
    ("padding_ignored", "shows the last slot of padding on the left",
     lambda r: r | (leading(r) & _moved(r, -1)), 1),
    ("padding_ignored", "shows the first slot of padding", lambda r: r | ((~r).cumsum(1) == 1) & ~r, 2),
    ("padding_ignored", "shows the last slot of padding",
     lambda r: r | ((~r)[:, ::-1].cumsum(1) == 1)[:, ::-1], 2),
    ("off_by_one", "hides the first token", lambda r: r & (np.cumsum(r, axis=1) != 1), 1),
    ("off_by_one", "hides the last token", lambda r: r & (np.cumsum(r[:, ::-1], axis=1)[:, ::-1] != 1), 1),
    ("off_by_one", "hides slot 0", lambda r: r & (np.arange(r.shape[1]) > 0), 2),
    ("keys_hidden", "hides every one of the keys", lambda r: np.zeros_like(r), 1),
)  # fmt: skip
"""Mistakes with a padding mask `[batch, slot]` of either stack."""


def _own_padding(change: Callable[[Array], Array]) -> Callable[[Slots], Array]:
    return lambda s: rows(np.asarray(change(s.real)))


def of_memory(change: Callable[[Array], Array]) -> Callable[[Slots], Array | None]:
    return lambda s: None if s.memory is None else rows(np.asarray(change(s.memory)))


def queries(s: Slots) -> Array:
    return s.real[:, s.past :, None]


OWN: tuple[Rule, ...] = (
    Rule("", "", lambda s: rows(s.real)),
    *(Rule(f"mask.{name}", says, _own_padding(change), steps) for name, says, change, steps in MISREAD),
    Rule("mask.padding_on_queries", "hides queries that are padding, not keys", queries),
    Rule("mask.padding_ignored", "shows padding once it is in the cache",
         lambda s: rows(s.real | (np.arange(s.real.shape[1]) < s.past)), 1),
    Rule("mask.padding_ignored", "shows padding of this call", lambda s: rows(s.real | ~(s.key[0] < s.past)), 1),
    Rule("mask.padding_stale", "has the padding of the first slots at the last ones",
         lambda s: rows(np.concatenate([np.ones_like(s.real[:, : s.length]), s.real[:, : s.past]], 1)), 2),
    Rule("mask.padding_exchanged", "hides the encoder's padding among the decoder's keys",
         lambda s: None if s.memory is None else rows(fitted(s.memory, s.real.shape[1])), 0),
    Rule("mask.padding_exchanged", "hides the encoder's padding, aligned to the end, among the decoder's keys",
         lambda s: None if s.memory is None else rows(fitted(s.memory, s.real.shape[1], at_end=True)), 1),
)  # fmt: skip
"""Which of the stack's own keys are padding; the first is right."""


def by_id(s: Slots, *, memory: bool) -> Iterator[Rule]:
    """Padding taken from a token's id, `[batch, key]`: one rule for each id of the text, with the mask and instead."""
    ids = s.memory_ids if memory else s.ids
    if ids is None or ids.shape[1] < (s.memory.shape[1] if memory and s.memory is not None else 0):
        return
    where = "among the encoder's keys" if memory else ""

    def rule(id_: int, *, alone: bool) -> Callable[[Slots], Array | None]:
        def visible(s: Slots) -> Array | None:
            ids, real = (s.memory_ids, s.memory) if memory else (s.ids, s.real)
            if ids is None or real is None or ids.shape != real.shape:
                return None
            return rows((ids != id_) & (alone | real))

        return visible

    for id_ in map(int, np.unique(ids)[:64]):
        yield Rule("mask.pad_id", f"hides every token of id {id_} {where}".rstrip(), rule(id_, alone=False), 1)
        yield Rule(
            "mask.pad_id",
            f"hides every token of id {id_} and no other padding {where}".rstrip(),
            rule(id_, alone=True),
            1,
        )
