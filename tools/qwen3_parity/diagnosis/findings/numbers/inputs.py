"""What is right once a tap that goes in is rounded: activations of 8 or 4 bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.groupings import groupings
from qwen3_parity.diagnosis.findings.numbers.steps import STEPS
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.mistakes.rounding import EIGHT_BITS, ROUNDED

_MOST = 1 << 19
"""Elements of a tap and of what goes in, times ways to round it: more are not tried."""


def rounded_input(tap: WrongTap) -> Finding | None:
    """The truth on a rounded input is what was recorded."""
    if floats(tap) is None:
        return None
    for key in dict.fromkeys(tap.reads):
        values = tap.recorded(*key)
        if values is None or values.dtype.kind != "f" or values.ndim < 2 or not np.isfinite(values).all():
            continue
        for number, (words, rounded) in enumerate(_ways(values)):
            if (number + 1) * (values.size + tap.truth.size) > _MOST:
                break
            guess = tap.again(key, rounded)
            if guess is None or guess.shape != tap.truth.shape:
                break
            if explained(tap, guess) == 1:
                says = f"it is right once {_called(key[0])} is rounded before it goes in: {words}"
                return Finding("invariant.grid", says, 1.0)
    return None


def _called(name: str) -> str:
    """The last part of a tap's name; all of it where that is a layer's number alone."""
    last = name.rpartition(".")[2]
    return name if last.isdecimal() else last


def _ways(values: Array) -> Iterator[tuple[str, Array]]:
    for name, to in (*ROUNDED, *EIGHT_BITS):
        yield name, to(values).astype(np.float64)
    peak = np.abs(values).max(axis=-1, keepdims=True)  # as exponentials are, before a softmax divides them by their sum
    by = np.where(peak > 0, peak, 1)
    for name, to in (*ROUNDED, *EIGHT_BITS):
        yield f"{name}, once each row is divided by its largest", to(values / by).astype(np.float64) * by
    for steps in STEPS:
        for grouping in groupings(values.shape):
            yield steps.words.format(grouping.words), steps.rounded(grouping, values).reshape(values.shape)
