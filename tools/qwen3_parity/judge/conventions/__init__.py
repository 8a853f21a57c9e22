"""Recordings that keep another convention: recognised before anything is judged, named once, read as they are meant.

A port that counts layers from 1, writes big-endian numbers or puts heads where positions belong has one thing to mend
in its recorder, and nothing in its network. Each rule gives the recording as it is meant and one problem for all of it;
what is judged afterwards is the network.
"""

from __future__ import annotations

from collections.abc import Callable

from qwen3_golden import Recording, pb
from qwen3_parity.judge.conventions.names import (
    inputs_are_copied,
    layers_from_0,
    names_of_taps,
    steps_from_0,
    unset_run,
)
from qwen3_parity.judge.conventions.numbers import byte_and_memory_order, judged_kinds, kinds_of_numbers, layouts
from qwen3_parity.judge.verdict import Problem

__all__ = ["RULES", "conventional", "judged_kinds"]

Rule = Callable[[Recording, Recording], tuple[Recording, list[Problem]]]

RULES: tuple[Rule, ...] = (
    unset_run,
    layers_from_0,
    steps_from_0,
    names_of_taps,
    inputs_are_copied,
    byte_and_memory_order,
    kinds_of_numbers,
    layouts,
)


def conventional(actual: Recording, expected: Recording) -> tuple[Recording, list[Problem]]:
    """The candidate as it is meant, and what its recorder has to mend; unchanged where it keeps every convention.

    A recording of another case is left as it is.
    """
    problems: list[Problem] = []
    same_case = (actual.case.name, actual.case.mode) == (expected.case.name, expected.case.mode)
    if not same_case or expected.case.mode in (pb.TOKENIZATION, pb.WEIGHTS):
        return actual, problems
    for rule in RULES:
        actual, found = rule(actual, expected)
        problems += found
    return actual, problems
