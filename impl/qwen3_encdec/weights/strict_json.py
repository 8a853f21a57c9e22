"""JSON that others wrote: one object, each name once, finite numbers of a size that something can have."""

import json
import math
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 64
MAX_DIGITS = 19
"""What an integer of 64 bits has."""


def parse(text: str, repeated: Callable[[str, object], Exception] | None = None) -> Any:
    """What a JSON text holds; `ValueError` for what is no JSON, and for what only Python takes.

    Refused: a name twice in one object (`repeated` makes the error of a name and its second value), NaN and Infinity,
    numbers beyond float64, integers of more than 19 digits, half a character, and more than 64 levels.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            names: set[str] = set()
            for name, value in pairs:
                if name in names:
                    raise repeated(name, value) if repeated else ValueError(f"{name!r} stands twice in one object")
                names.add(name)
        return entries

    try:
        content = json.loads(
            text, object_pairs_hook=members, parse_constant=_constant, parse_int=_integer, parse_float=_float
        )
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep") from None
    _check_depth(content)
    if "\\ud" in text.lower():  # JSON can escape half a character, which nothing can write again
        try:
            json.dumps(content, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"half a character, U+{ord(error.object[error.start]):04X}, stands in a text") from None
    return content


def _constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(digits.lstrip('-'))} digits, expected at most {MAX_DIGITS}")
    return int(digits)


def _float(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError(f"the number {digits[:40]} is beyond float64")
    return value


def _check_depth(content: object) -> None:
    level = [content]
    for _ in range(MAX_DEPTH):
        parts = [list(part.values()) if isinstance(part, dict) else part for part in level]
        level = [child for part in parts if isinstance(part, list) for child in part if isinstance(child, dict | list)]
        if not level:
            return
    raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
