"""The inputs among the arrays of a dump: they must be those of the case."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from qwen3_golden import Array
from qwen3_parity.judge.match import GIVEN
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.dumps.dump import Dumped, refused, shown
from qwen3_parity.recording.slots import Forward

_SHOWN_IDS = 64


def is_given(name: str) -> bool:
    """Whether an array is what the case gives, and so must be the case's."""
    return bool(_given(name)) or name.endswith(("input_ids", "embed_tokens:input", "embed_tokens:input.0"))


def _given(name: str) -> str:
    """The `input.*` of a recording that was written as a dump, or `inputs.*` of a model; empty for another name."""
    rest = name.partition(".")[2] if name.partition(".")[0].isdecimal() else name
    return rest if rest.startswith((*GIVEN, "inputs.")) else ""


def forward_of(one: Dumped) -> int:
    """The forward that an input was given to: that of the array, or the number in front of its name."""
    step = one.name.partition(".")[0]
    return int(step) if step.isdecimal() and len(step) < 7 and not one.forward else one.forward


def _expected(case: Case, name: str, forward: Forward) -> Array | None:
    """What the case gives in the place of an array of a dump, None for what it does not give."""
    given = _given(name)
    if given.startswith(GIVEN):
        known = case.golden.get(given)
        return known.array if known else None
    word = given.removeprefix("inputs.") or "input_ids"
    array = case.arrays.get("input_ids" if word.isdecimal() else word)
    first = 0 if word == "attention_mask" else forward.first
    return None if array is None else array[:, first : forward.stop]


def refuse_other_inputs(case: Case, inputs: Sequence[Dumped], forward: Forward) -> None:
    """Raise `ParityError` for an array of a forward that is another than the case gives."""
    for one in inputs:
        expected = _expected(case, one.name, forward)
        if expected is None or (prod(one.shape) == expected.size and equal(one.load(), expected)):
            continue
        short = prod(one.shape) == expected.size <= _SHOWN_IDS
        got = str(one.load().reshape(-1).tolist()) if short else f"shape {list(one.shape)}"
        wanted = str(expected.reshape(-1).tolist()) if expected.size <= _SHOWN_IDS else f"shape {list(expected.shape)}"
        rule = f"{shown(one.name)} is another than that of {case.name}"
        raise refused(one.file, rule, wanted, got, f"run the model on the case's inputs: qwen3-parity show {case.path}")


def equal(array: Array, expected: Array) -> bool:
    """Whether two arrays hold the same elements in the same order."""
    return bool(np.array_equal(array.reshape(-1), expected.reshape(-1)))
