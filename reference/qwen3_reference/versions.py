"""The versions of libraries that the reference was measured with, and our own implementation with it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from qwen3_golden import ParityError

SUPPORTED: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "torch": ((2, 13), (3,)),
    "transformers": ((5, 23), (6,)),
}
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


def unsupported(name: str, installed: str) -> str:
    """The versions of a library that the reference runs with, where the installed one is none of them; else ""."""
    if name not in SUPPORTED:
        return ""
    first, beyond = SUPPORTED[name]
    if first <= _numbers(installed) < beyond:
        return ""
    return f"{name} >= {'.'.join(map(str, first))}, < {'.'.join(map(str, beyond))}"


def check_versions(installed: Mapping[str, str]) -> None:
    """Raise `ParityError` saying expected and got when a library is outside the supported range."""
    wrong = {name: expected for name in SUPPORTED if (expected := unsupported(name, installed[name]))}
    if wrong:
        raise ParityError(
            "the reference and our implementation",
            "they run with the libraries that made the goldens; a model of your own is recorded with older ones",
            expected=", ".join(wrong.values()),
            got=", ".join(f"{name} {installed[name]}" for name in wrong),
            next_step="pip install 'qwen3-parity[reference]' in an environment of its own; record your model by --impl",
        )


def refuse_unsupported() -> None:
    """Raise `ParityError` as `check_versions` for what is installed, `PackageNotFoundError` for what is not."""
    check_versions({name: version(name) for name in SUPPORTED})
