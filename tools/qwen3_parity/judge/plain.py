"""Numbers for machines: what JSON can say of them."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """The value with what JSON cannot say (NaN, infinities) as strings and tuples as lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
