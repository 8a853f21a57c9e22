"""Numbers that hardly differ are no others' in another order; a narrower type is called by its narrowest name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from drawn_tap import TRUTH, tap_of

from qwen3_parity.diagnosis.findings.numbers.grids import grid
from qwen3_parity.diagnosis.findings.numbers.places import axis_order, permuted
from qwen3_parity.mistakes.rounding import EIGHT_BITS, bfloat16

NEARLY_ONE = 1 + 1e-2 * TRUTH


def test_what_hardly_differs_is_in_no_other_order() -> None:
    wrong = tap_of(2 * TRUTH, np.ones(TRUTH.shape) + 1e-3 * np.cos(np.arange(TRUTH.size)).reshape(TRUTH.shape))
    assert axis_order(wrong) is None and permuted(wrong) is None
    near = tap_of(NEARLY_ONE + np.arange(24), NEARLY_ONE[:, :, :1] + np.zeros(24))
    assert axis_order(near) is None and permuted(near) is None


def test_axes_that_were_exchanged_are_told() -> None:
    turned = np.ascontiguousarray(TRUTH.transpose(1, 0, 2)).reshape(TRUTH.shape)
    finding = axis_order(tap_of(TRUTH, turned))
    assert finding is not None and "[position, batch, channel] in memory" in finding.says


def test_a_block_of_zeros_is_in_no_order_of_axes() -> None:
    """Other rows are padded where it stands: with axes exchanged it would be zeros, too."""
    written = TRUTH.reshape(3, 2, 7, 8).copy()
    written[[0, 2], :, :4] = 0
    actual = written.copy()
    actual[1, :, :4] = 0
    lost = replace(tap_of(written, actual), axes=("batch", "heads", "key", "channel"))
    assert lost.wrong.any() and axis_order(lost) is None


def test_numbers_of_eight_bits_are_not_called_bfloat16s() -> None:
    for name, rounded in EIGHT_BITS:
        finding = grid(tap_of(TRUTH, rounded(TRUTH.astype(np.float32)).astype(np.float64)))
        assert finding is not None and f"those of {name}, and right when rounded" in finding.says
    finding = grid(tap_of(TRUTH, bfloat16(TRUTH.astype(np.float32)).astype(np.float64)))
    assert finding is not None and "those of bfloat16" in finding.says
