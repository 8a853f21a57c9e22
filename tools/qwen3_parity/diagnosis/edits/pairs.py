"""Two mistakes at once in one region: an edit that brings a wrong tap nearer, with every other one beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qwen3_parity.diagnosis.edits.edit import Edit
from qwen3_parity.diagnosis.edits.target import Target
from qwen3_parity.mistakes.ranks import COMBINED
from qwen3_parity.slices.source import place_of

_BEGINNINGS = 3
"""Edits that others are tried beside: those that leave least of the error."""


def pairs(first: Target, every: Sequence[Edit]) -> Iterator[Edit]:
    """The nearest of the edits that were tried at a tap, each together with every edit of another place."""
    for edit in first.nearest[:_BEGINNINGS]:
        yield from beside(edit, every)


def beside(edit: Edit, every: Sequence[Edit]) -> Iterator[Edit]:
    """An edit together with every one of another place."""
    for more in every:
        if more.says != edit.says and more.changes.keys().isdisjoint(edit.changes):
            at = "" if more.line is None else f", at {place_of(more.line.line)}"
            says = f"does two things otherwise: {more.says}{at}; and {edit.says}"
            yield Edit(edit.name, says, COMBINED + 1, {**edit.changes, **more.changes}, edit.line, (edit, more))
