"""Caches that keep their numbers in a narrower type, all of them, the new ones, or those that they held."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.cache_parts import Contents, exact, joined
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.rounding import EIGHT_BITS, ROUNDED
from qwen3_spec.site import Site

_Rounded = Callable[[Array], Array]


def _on_grid(axes: tuple[int, ...] | None) -> _Rounded:
    """8 bits, the largest number over these axes at the end of the scale."""

    def rounded(x: Array) -> Array:
        scale = np.abs(x).max(axis=axes, keepdims=True, initial=0) / 127
        return np.asarray(np.rint(x / np.where(scale, scale, 1)) * scale)

    return rounded


_QUANTISED: tuple[tuple[str, _Rounded], ...] = (
    ("whole numbers", np.rint),
    ("8 bits by a scale for each head of a slot", _on_grid((3,))),
    ("8 bits by one scale", _on_grid(None)),
)
_WAYS: tuple[tuple[str, Callable[[_Rounded], Contents], Rank], ...] = (
    ("stores {}", lambda rounded: lambda b, n, _: rounded(joined(b, n)), PLAIN + 1),
    ("rounds what it held to {}", lambda rounded: lambda b, n, _: joined(rounded(b), n), PLAIN + 1),
    ("rounds what is new to {}", lambda rounded: lambda b, n, _: joined(b, rounded(n)), RARE),
)


def types(site: Site) -> Iterator[Hypothesis]:
    """Narrower floats, and grids of 8 bits."""
    fix = "store keys and values in their own type"
    kinds = [("cache.half_precision", kind) for kind in (*ROUNDED, *EIGHT_BITS)]
    kinds += [("cache.quantised", kind) for kind in _QUANTISED]
    for name, (kind, rounded) in kinds:
        for says, way, rank in _WAYS:
            yield Hypothesis(name, says.format(kind), fix, exact(way(rounded)), rank)
