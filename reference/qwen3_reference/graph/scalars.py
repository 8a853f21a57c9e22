"""Scalars of a configuration that a forward multiplies by, or bends large numbers with, where they can be missed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

Settings = Mapping[str, Any]

_FACTORS = re.compile(
    r".*(_multipliers?|logits?_scaling|logits?_scale|route_scale|(routed|router)_scaling_factor|_(alpha|beta)_factor)"
)
_SIZES = re.compile(r".*(_dim|width|depth|depthwise)_multiplier")
_CAPS = re.compile(r".*(soft_?cap(ping)?|logit_cap)")
_ATTENTION, _LOGITS = 2.5, 5.0
"""Numbers reach these; to the caps that families have they are as if there were none."""
_LOWEST, _HIGHEST, _STEPS = (0.37, 1.4), (0.7, 2.6), 1 << 16


def louder(said: Settings) -> dict[str, Any]:
    """The same configuration, and the dicts within it, with factors that are 1 far from it, and caps that are reached.

    Whoever leaves a factor of 1 out computes the same. Each key has its own value, the same at each call.
    """
    return {key: _louder(key, value) for key, value in said.items()}


def _louder(key: object, value: Any) -> Any:
    if isinstance(value, Mapping):
        return louder(value)
    name = str(key)
    if _FACTORS.fullmatch(name) and not _SIZES.fullmatch(name):
        if isinstance(value, list) and set(map(_is_unit, value)) == {True}:
            return [_factor(f"{name}.{place}") for place in range(len(value))]
        return _factor(name) if _is_unit(value) else value
    if _CAPS.fullmatch(name) and isinstance(value, int | float) and value > 0:
        return min(value, _LOGITS if "logit" in name and "att" not in name else _ATTENTION)
    return value


def _is_unit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == 1


def _factor(name: str) -> float:
    """0.37 to 0.7, or 1.4 to 2.6."""
    drawn = crc32(name.encode())
    low, high = _LOWEST[drawn % 2], _HIGHEST[drawn % 2]
    return round(low + (high - low) * (drawn // 2 % _STEPS) / _STEPS, 3)
