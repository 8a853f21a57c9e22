"""The inputs among the arrays of a dump: they must be those of the case."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from qwen3_golden import Array
from qwen3_parity.judge.match import GIVEN
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.dumps.dump import Dumped, refused, shown
from qwen3_parity.recording.packed import real_tokens
from qwen3_parity.recording.slots import Forward

_SHOWN_IDS = 64


def is_given(name: str) -> bool:
    """Whether an array is what the case gives, and so must be the case's."""
    return bool(_input_name(name)) or name.endswith(("input_ids", "embed_tokens:input", "embed_tokens:input.0"))


def _input_name(name: str) -> str:
    """The `input.*` of a recording that was written as a dump, or `inputs.*` of a model; empty for another name."""
    rest = name.partition(".")[2] if name.partition(".")[0].isdecimal() else name
    return rest if rest.startswith((*GIVEN, "inputs.")) else ""


def forward_of(dumped: Dumped) -> int:
    """The forward that an input was given to: that of the array, or the number in front of its name."""
    step = dumped.name.partition(".")[0]
    return int(step) if step.isdecimal() and len(step) < 7 and not dumped.forward else dumped.forward


def _expected(case: Case, name: str, forward: Forward) -> Array | None:
    """What the case gives in the place of an array of a dump, None for what it does not give."""
    input_name = _input_name(name)
    if input_name.startswith(GIVEN):
        known = case.golden.get(input_name)
        return known.array if known else None
    word = input_name.removeprefix("inputs.") or "input_ids"
    array = case.arrays.get("input_ids" if word.isdecimal() else word)
    first = 0 if word == "attention_mask" else forward.first
    return None if array is None else array[:, first : forward.stop]


def refuse_other_inputs(case: Case, inputs: Sequence[Dumped], forward: Forward) -> None:
    """Raise `ParityError` for an array of a forward that is another than the case gives."""
    for dumped in inputs:
        expected = _expected(case, dumped.name, forward)
        if expected is None or (prod(dumped.shape) == expected.size and equal(dumped.load(), expected)):
            continue
        real = real_tokens(case, forward)
        if real is not None and prod(dumped.shape) == real.sum() and expected.shape[:2] == real.shape:
            expected = expected[real]
            if equal(dumped.load(), expected):
                continue
        short = prod(dumped.shape) == expected.size <= _SHOWN_IDS
        got = str(dumped.load().reshape(-1).tolist()) if short else f"shape {list(dumped.shape)}"
        expected_text = (
            str(expected.reshape(-1).tolist()) if expected.size <= _SHOWN_IDS else f"shape {list(expected.shape)}"
        )
        rule = f"{shown(dumped.name)} is another than that of {case.name}"
        raise refused(
            dumped.file, rule, expected_text, got, f"run the model on the case's inputs: qwen3-parity show {case.path}"
        )


def equal(array: Array, expected: Array) -> bool:
    """Whether two arrays hold the same elements in the same order."""
    return bool(np.array_equal(array.reshape(-1), expected.reshape(-1)))
