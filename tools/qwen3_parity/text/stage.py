"""What a stage of a tokenizer is: its truth, what a recording holds of it, and the ways in which it goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import eq
from typing import Any

from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.view import Views

State = dict[str, Any]
"""Values of one text's stages by name; each stage's file says what its value is.

`cut`, where it is known, holds the final pieces of each pre-token.
"""

Compute = Callable[[Oracle, Any, State], Any]
"""A stage's value from the message that asks for it and the values of the stages before it."""


@dataclass(frozen=True)
class Wrong:
    """A wrong way: `name` begins with its stage, `says` what is done and `fix` what to do instead, a line each."""

    name: str
    says: str
    fix: str
    compute: Compute

    @property
    def stage(self) -> str:
        """The stage that it computes."""
        return self.name.split(".")[0]


def wrong_ways(stage: str, how: Callable[[Any], Compute], fix: str, rows: Iterable[tuple[Any, ...]]) -> list[Wrong]:
    """Wrong ways that share a remedy, from rows: a name within the stage, what is done, and changes that do it.

    `how` makes a change a way to compute the stage. Several changes are one mistake made in several ways.
    """
    return [Wrong(f"{stage}.{name}", says, fix, how(change)) for name, says, *changes in rows for change in changes]


def directly(compute: Compute) -> Compute:
    """For rows whose changes are ways to compute the stage already."""
    return compute


@dataclass(frozen=True)
class Stage:
    """One stage. `truth` is Hugging Face's own part on whatever the stages before it gave, None where it has none.

    `observed` is the stage's value in a message, `holds` whether such a value is more than fields that nobody set.
    `views` are what is compared with a golden and shown; `differs(expected message, actual message)` replaces their
    comparison. `same(actual, expected, state)` is whether two values are equally right, and `allowed(oracle, message,
    actual, expected, state)` whether a value is right that is another than the truth. A stage that encodes whole texts
    inside has `by_encoding`: its value by any way to encode.
    """

    truth: Compute
    observed: Callable[[Any], Any]
    views: Callable[[Any], Views]
    wrong: Sequence[Wrong]
    holds: Callable[[Any], bool] = bool
    differs: Callable[[Any, Any], tuple[str, str, str] | None] | None = None
    same: Callable[[Any, Any, State], bool] = lambda actual, expected, _: bool(eq(actual, expected))
    allowed: Callable[[Oracle, Any, Any, Any, State], bool] = lambda *_: False
    by_encoding: Callable[[Oracle, Any, State, Callable[[str], Sequence[int]]], Any] | None = None

    def has(self, message: Any) -> bool:
        """Whether anything is delivered of the stage, in one text, list of ids, batch or conversation."""
        return self.holds(self.observed(message))
