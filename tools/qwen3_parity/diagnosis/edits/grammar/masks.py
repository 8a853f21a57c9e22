"""Other keys that a mask shows: the last ones, another query's, a window's end alone, each position's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change

_BLOCKS = (2, 4, 8, 16, 32, 64, 128)
"""Keys that people attend to at once."""
CHUNKS = (*range(2, 9), 16, 32, 64, 128, 256, 512)
"""Tokens of a prompt that are run at once."""
_ADDED = frozenset({"where", "masked_fill"})
"""Ops that make a mask something to add to scores."""
_OF_WEIGHTS = frozenset({"mul", "where", "masked_fill", "tril"})
"""Ops that leave weights of what is ahead out."""
_MOST = float(np.finfo(np.float32).max)
HIDING = -1e4
"""A score that is hidden is below it."""


def masks(op: str, base: Array, operands: Sequence[Any]) -> Iterator[tuple[str, Change]]:
    """What is done to the mask that an op gives, if it does, in words; `operands` is what it reads."""
    if base.dtype.kind == "b" and base.ndim:
        yield from _of_mask(base, operands)
    if base.dtype.kind == "f" and op in _ADDED:
        yield from _of_scores(base)
    if base.dtype.kind == "f" and op in _OF_WEIGHTS:
        yield from _of_triangle(base, operands)


def _of_mask(base: Array, reads: Sequence[Any]) -> Iterator[tuple[str, Change]]:
    yield "is always true", lambda call: np.full(np.shape(call.plain()), True)
    yield "is inverted", lambda call: ~call.plain()
    for size in _BLOCKS if base.ndim > 2 else ():
        if size < base.shape[-1] and base.shape[-1] % size:
            yield f"hides the keys behind the last whole block of {size}", _whole_blocks(size)
    if base.ndim > 2 and base.shape[-2] > 1:
        for keys in range(1, base.shape[-1]):
            yield f"sees the last {keys} keys alone", _last_keys(keys)
        for size in _BLOCKS:
            if size < base.shape[-1]:
                yield f"hides the blocks of {size} keys before each query's own", _own_block(size)
                yield (
                    f"hides the blocks of {size} keys before each query's own where there are several queries",
                    _own_block(size, fewest=2),
                )
        yield "sees the key ahead of each query, too", _one_ahead
        yield "sees what the last query sees, too", _last_query
        yield "has the last query's row for every query", _row_of(-1)
        yield "has the first query's row for every query", _row_of(0)
    ends = None if any(np.array_equal(base, x) for x in reads if isinstance(x, np.ndarray)) else _ends(base)
    for says, rule in _WINDOWS.items() if ends else ():
        yield says, _windowed(rule)


def _of_scores(base: Array) -> Iterator[tuple[str, Change]]:
    """What a prompt in chunks makes of what is added to scores, 0 where a key is visible, in words."""
    hidden = base <= HIDING
    if base.ndim > 2 and base.shape[-1] > base.shape[-2] and (base[~hidden] == 0).all():
        yield (
            "counts its queries from the first slot, without those of the past: keys ahead of that are hidden",
            _cornered,
        )
    if not _is_prompt(base) or not hidden.any() or (base[~hidden] != 0).any():
        return
    for size in (size for size in CHUNKS if size < base.shape[-1]):
        yield f"hides the keys before each chunk of {size} tokens of a prompt", _chunk_alone(size)
        says = f"has the mask of a prompt's first {size} tokens for each chunk of so many, without its offset"
        yield says, _without_offset(size)


def _of_triangle(base: Array, operands: Sequence[Any]) -> Iterator[tuple[str, Change]]:
    """What is done to weights of which none stands above the diagonal, in words; `operands` is what the op reads."""
    if base.ndim < 2 or base.shape[-1] != base.shape[-2] or base.shape[-1] < 2 or np.triu(base, 1).any():
        return
    if _diagonal(base).any():
        yield "leaves out its diagonal, each position's own", lambda call: np.tril(call.plain(), -1)
    elif base.any():
        for slot, x in enumerate(operands):
            if np.shape(x) == base.shape and _diagonal(x).any():
                yield "keeps its diagonal, each position's own, too", _with_diagonal(slot)


def _diagonal(x: Array) -> Array:
    return np.diagonal(x, axis1=-2, axis2=-1)


def _with_diagonal(slot: int) -> Change:
    def change(call: Call) -> Array:
        weights = np.asarray(call.plain())
        return np.where(np.eye(*weights.shape[-2:]) > 0, call.operands[slot], weights)

    return change


_WINDOWS: dict[str, Callable[[Array, int, int], Array]] = {
    "has its window behind each query alone, all of it, not on both sides": lambda far, ahead, behind: (
        (far >= 0) & (far <= ahead + behind)
    ),
    "has its window behind each query alone, its own side of it, and sees no keys ahead": lambda far, _, behind: (
        (far >= 0) & (far <= behind)
    ),
    "has no end of its window on the side ahead": lambda far, _, behind: far <= behind,
    "has no end of its window on the side behind": lambda far, ahead, _: far >= -ahead,
    "has the two sides of its window exchanged": lambda far, ahead, behind: (far >= -behind) & (far <= ahead),
}
"""Which keys are seen, by how far they stand behind the query, where a window reaches so far ahead and behind."""


def _ends(visible: Array) -> tuple[int, int] | None:
    """How far a window reaches ahead and behind; None for what has no end on one of the sides, or is no window."""
    if visible.ndim < 2 or visible.shape[-2] != visible.shape[-1]:
        return None
    every = visible.reshape(-1, *visible.shape[-2:])
    far = _far(visible.shape[-1])[every[0]]
    if not far.size or not (ends := (-int(far.min()), int(far.max()))) or min(ends) < 1:
        return None
    window = (_far(visible.shape[-1]) >= -ends[0]) & (_far(visible.shape[-1]) <= ends[1])
    return ends if max(ends) < visible.shape[-1] - 1 and (every == window).all() else None


def _far(count: int) -> Array:
    """How far each key stands behind each query."""
    return np.arange(count)[:, None] - np.arange(count)


def _windowed(rule: Callable[[Array, int, int], Array]) -> Change:
    def change(call: Call) -> Array:
        visible = np.asarray(call.plain())
        ends = _ends(visible)
        return visible if ends is None else np.broadcast_to(rule(_far(visible.shape[-1]), *ends), visible.shape)

    return change


def _last_keys(count: int) -> Change:
    """Visible keys by their number from the last visible one back."""

    def change(call: Call) -> Array:
        visible = np.asarray(call.plain())
        behind = np.cumsum(visible[..., ::-1], -1)[..., ::-1]
        return visible & (behind <= count)

    return change


def _own_block(size: int, fewest: int = 1) -> Change:
    """Keys of the query's own block alone, blocks counted from the first slot."""

    def change(call: Call) -> Array:
        visible = np.asarray(call.plain())
        queries, keys = visible.shape[-2:]
        blocks = np.arange(keys) // size
        return visible & (blocks[keys - queries :, None] == blocks) if queries >= fewest else visible

    return change


def _whole_blocks(size: int) -> Change:
    """Keys of whole blocks alone, blocks counted from the first slot."""

    def change(call: Call) -> Array:
        visible = np.asarray(call.plain())
        keys = visible.shape[-1]
        return np.asarray(visible & (np.arange(keys) < max(keys // size, 1) * size))

    return change


def _cornered(call: Call) -> Array:
    """A triangle that begins in the corner, beside what is hidden: a key that both hide is hidden twice as much."""
    scores = np.asarray(call.plain())
    queries, keys = scores.shape[-2:]
    least = scores.min() if scores.min() <= HIDING else -_MOST  # of the type that the mask is of
    return np.asarray(scores + np.where(np.arange(keys) > np.arange(queries)[:, None], least, 0))


def _chunk_alone(size: int) -> Change:
    """Of a prompt in chunks of so many tokens, padding not counted, the keys of each query's own chunk."""

    def change(call: Call) -> Array:
        scores = np.asarray(call.plain())
        chunks = _tokens(scores) // size
        return (
            np.where(chunks[..., None] == chunks[..., None, :], scores, scores.min()) if _is_prompt(scores) else scores
        )

    return change


def _without_offset(size: int) -> Change:
    """Of a prompt in chunks of so many tokens, padding not counted, what the first chunk's queries see, for each."""

    def change(call: Call) -> Array:
        scores = np.asarray(call.plain())
        if not _is_prompt(scores):
            return scores
        before = np.maximum(_tokens(scores), 0) // size * size
        rows = np.broadcast_to((np.arange(scores.shape[-2]) - before)[..., None], scores.shape)
        return np.take_along_axis(scores, rows, -2)

    return change


def _tokens(scores: Array) -> Array:
    """`[…, key]`, the number of each key among the tokens of its row: padding is what no query sees."""
    return np.cumsum((scores > HIDING).any(-2), -1) - 1


def _is_prompt(scores: Array) -> bool:
    """Whether there are several queries, each with a key of its own: a step of one token is no chunk."""
    return bool(scores.ndim > 2 and scores.shape[-2] == scores.shape[-1] > 1)


def _one_ahead(call: Call) -> Array:
    """Not padding, which no query sees."""
    visible = np.asarray(call.plain())
    ahead = np.concatenate([np.zeros_like(visible[..., :1]), visible[..., :-1]], -1)
    return np.asarray(visible | (ahead & visible.any(-2, keepdims=True)))


def _row_of(query: int) -> Change:
    def change(call: Call) -> Array:
        visible = np.asarray(call.plain())
        return np.broadcast_to(np.take(visible, [query], -2), visible.shape)

    return change


def _last_query(call: Call) -> Array:
    visible = np.asarray(call.plain())
    return np.asarray(visible | visible[..., -1:, :])
