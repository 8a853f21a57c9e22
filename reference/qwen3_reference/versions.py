"""The versions of Python and libraries that the reference was measured with; importing this checks them."""

from __future__ import annotations

import sys
from importlib.metadata import version

_PYTHON = (3, 11)
_SUPPORTED = {"torch": ((2, 13), (3,)), "transformers": ((5, 23), (6,))}
"""Library: the first supported version and the first one that is not."""


def _numbers(text: str) -> tuple[int, ...]:
    """`"2.13.0+cpu"` -> `(2, 13)`; a part that does not start with digits ends it."""
    numbers = []
    for part in text.split("+")[0].split(".")[:2]:
        digits = "".join(c for c in part if c.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def check_versions(python: tuple[int, ...], installed: dict[str, str]) -> None:
    """Raise `ImportError` saying expected and got when Python or a library is outside the supported range."""
    if python < _PYTHON:
        raise ImportError(f"qwen3_reference: expected Python >= {'.'.join(map(str, _PYTHON))}, got {python}")
    for name, (first, beyond) in _SUPPORTED.items():
        if not first <= _numbers(installed[name]) < beyond:
            supported = f">= {'.'.join(map(str, first))}, < {'.'.join(map(str, beyond))}"
            raise ImportError(f"qwen3_reference: expected {name} {supported}, got {installed[name]}")


check_versions(sys.version_info[:2], {name: version(name) for name in _SUPPORTED})
