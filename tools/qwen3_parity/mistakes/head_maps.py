"""Which KV head each query head reads: the ways in which the map goes wrong, and the map that the numbers tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qwen3_golden import Array

HeadMap = Callable[[int, int], "Array | None"]
"""`(heads, kv_heads)` -> the KV head of every query head, `[heads]`; None where there is no such map."""


def _groups(heads: int, kv_heads: int) -> Array:
    return np.asarray(np.arange(heads) // (heads // kv_heads))


def _clipped(by: int) -> HeadMap:
    return lambda h, kv: np.clip(_groups(h, kv) + by, 0, kv - 1)


HEAD_MAPS: tuple[tuple[str, str, HeadMap], ...] = (
    ("kv_heads_tiled", "tiles the KV heads: query head h reads KV head h % kv_heads", lambda h, kv: np.arange(h) % kv),
    ("kv_heads", "takes kv_heads for the group size: query head h reads KV head h // kv_heads",
     lambda h, kv: np.minimum(np.arange(h) // kv, kv - 1)),
    ("kv_heads", "takes kv_heads for the group size, wrapping around", lambda h, kv: np.arange(h) // kv % kv),
    ("kv_heads", "reads the next KV head", lambda h, kv: (_groups(h, kv) + 1) % kv),
    ("kv_heads", "reads the KV head before", lambda h, kv: (_groups(h, kv) - 1) % kv),
    ("kv_heads", "reads the next KV head, the last group its own", _clipped(1)),
    ("kv_heads", "reads the KV head before, the first group its own", _clipped(-1)),
    ("kv_heads", "reads KV head 0 alone", lambda h, kv: np.zeros(h, int)),
    ("kv_heads", "reads the last KV head alone", lambda h, kv: np.full(h, kv - 1)),
    ("kv_heads", "reads the KV heads in reverse order", lambda h, kv: kv - 1 - _groups(h, kv)),
    ("kv_heads", "starts each group one query head early",
     lambda h, kv: np.minimum((np.arange(h) + 1) // (h // kv), kv - 1)),
    ("kv_heads", "starts each group one query head late",
     lambda h, kv: np.maximum(np.arange(h) - 1, 0) // (h // kv)),
    ("kv_heads", "gives query head h KV head h while there is one, then the last",
     lambda h, kv: np.minimum(np.arange(h), kv - 1)),
)  # fmt: skip
"""The ends of names ("kv_heads_tiled"), what is wrong, the map."""


def wrong_maps(heads: int, kv_heads: int) -> Iterator[tuple[str, str, HeadMap]]:
    """The maps of the table that differ from the right one and from each other at these sizes."""
    known = {_groups(heads, kv_heads).tobytes()}
    for name, says, build in HEAD_MAPS:
        kv_map = build(heads, kv_heads)
        if kv_map is not None and kv_map.astype(int).tobytes() not in known:
            known.add(kv_map.astype(int).tobytes())
            yield name, says, build


def fitted_map(heads: int, kv_heads: int, misfit: Callable[[int, int], float]) -> Array | None:
    """The KV head of least `misfit(query head, KV head)` for every query head; None when it is the right map."""
    kv_map = np.array([min(range(kv_heads), key=lambda kv: misfit(h, kv)) for h in range(heads)])
    return None if np.array_equal(kv_map, _groups(heads, kv_heads)) else kv_map
