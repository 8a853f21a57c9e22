"""Recordings that keep another convention: recognised before anything is judged, named once, read as they are meant.

A port that counts layers from 1, writes big-endian numbers or puts heads where positions belong has one thing to mend
in its recorder, and nothing in its network. Each rule gives the recording as it is meant and one problem for all of it.
What is as good as the golden's convention has nothing to mend: it is read as it is meant, and a note says so. What is
judged afterwards is the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from qwen3_golden import Array, Recording, pb
from qwen3_parity.judge.conventions.dual_streams import dual_streams
from qwen3_parity.judge.conventions.head_channels import interleaved_heads
from qwen3_parity.judge.conventions.last_logits import last_logits
from qwen3_parity.judge.conventions.masked_scores import masked_scores
from qwen3_parity.judge.conventions.names import (
    inputs_are_copied,
    layers_from_0,
    names_as_said,
    names_of_taps,
    steps_from_0,
    unset_run,
)
from qwen3_parity.judge.conventions.narrow_numbers import narrow_numbers
from qwen3_parity.judge.conventions.numbers import byte_and_memory_order, judged_kinds, kinds_of_numbers, layouts
from qwen3_parity.judge.match import is_parameter
from qwen3_parity.judge.verdict import Problem

__all__ = ["EQUALS", "RULES", "Conventional", "conventional", "judged_kinds"]

Rule = Callable[[Recording, Recording], tuple[Recording, list[Problem]]]

RULES: tuple[Rule, ...] = (
    unset_run,
    layers_from_0,
    steps_from_0,
    names_as_said,
    names_of_taps,
    inputs_are_copied,
    byte_and_memory_order,
    kinds_of_numbers,
    layouts,
)


Equal = Callable[[Recording, Recording, Mapping[str, Array] | None], tuple[Recording, list[str]]]

EQUALS: tuple[Equal, ...] = (masked_scores, narrow_numbers, interleaved_heads, dual_streams, last_logits)
"""Conventions that are as good as the golden's: the recording as the golden has it, and a note that says so."""


class Conventional(NamedTuple):
    """A candidate as it is meant, what its recorder has to mend, and which other conventions were recognised."""

    recording: Recording
    problems: list[Problem]
    notes: list[str]


def conventional(actual: Recording, expected: Recording, weights: Mapping[str, Array] | None = None) -> Conventional:
    """The candidate as it is meant; unchanged where it keeps every convention.

    `weights` are the case's parameters by canonical name, where they are at hand. A recording of another case is left
    as it is.
    """
    problems, notes = list[Problem](), list[str]()
    same_case = (actual.case.name, actual.case.mode) == (expected.case.name, expected.case.mode)
    if not same_case or expected.case.mode in (pb.TOKENIZATION, pb.WEIGHTS):
        return Conventional(actual, problems, notes)
    held = [] if expected.case.mode in (pb.OP, pb.PLUMBING) else [t for t in actual if is_parameter(t)]
    actual = replace(actual, tensors=[t for t in actual if not is_parameter(t)]) if held else actual
    for rule in RULES:
        actual, findings = rule(actual, expected)
        problems += findings
    for equal in EQUALS if expected.case.mode not in (pb.OP, pb.PLUMBING) else ():
        actual, said = equal(actual, expected, weights)
        notes += said
    return Conventional(replace(actual, tensors=[*actual, *held]) if held else actual, problems, notes)
