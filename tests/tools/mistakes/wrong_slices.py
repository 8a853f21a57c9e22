"""A golden with a graph, one tap replaced by wrong numbers: the tap as its slice judges it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from wrong_numbers import golden

from qwen3_golden import GOLDEN_ROOT, Array, tensor
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.findings import WrongTap
from qwen3_parity.diagnosis.findings.of_graph import wrong_tap
from qwen3_parity.slices.judge import judge
from qwen3_parity.slices.network import network
from qwen3_reference.graph.scope import counted


def slice_of(case: str, tap: str, change: Callable[[Array], Array], step: int = 0) -> WrongTap:
    """A tap whose numbers were changed, on the golden's other taps."""
    expected = golden(case)
    item = expected[tap, step]
    numbers = np.array(change(item.values().copy()), item.array.dtype, order="C")
    assert numbers.shape == item.array.shape
    wrong = tensor(tap, numbers, step=step, axes=item.info.axes, op=item.info.op)
    candidate = replace(expected, tensors=[wrong if old.key == item.key else old for old in expected])
    net = network(expected, candidate, weights_of(expected, GOLDEN_ROOT / "checkpoints"))
    tap_of = wrong_tap(judge(wrong, item, counted(item, expected), net), net)
    assert tap_of is not None
    return tap_of
