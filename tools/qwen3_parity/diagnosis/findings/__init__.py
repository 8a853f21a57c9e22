"""What the numbers of a wrong tap say by themselves, whichever judge it was judged by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.approximated import approximated
from qwen3_parity.diagnosis.findings.numbers.choices import counted_off
from qwen3_parity.diagnosis.findings.numbers.clamped import clamped
from qwen3_parity.diagnosis.findings.numbers.concentration import concentrated, size, unrelated
from qwen3_parity.diagnosis.findings.numbers.factors import factor, from_tap_to_tap, group_factor, key_parts
from qwen3_parity.diagnosis.findings.numbers.functions import function
from qwen3_parity.diagnosis.findings.numbers.grids import grid
from qwen3_parity.diagnosis.findings.numbers.inputs import rounded_input
from qwen3_parity.diagnosis.findings.numbers.keys_read import keys_read
from qwen3_parity.diagnosis.findings.numbers.masks import bands
from qwen3_parity.diagnosis.findings.numbers.offsets import axis_offset, key_bias
from qwen3_parity.diagnosis.findings.numbers.over_steps import position_factor, step_offset
from qwen3_parity.diagnosis.findings.numbers.places import axis_order, permuted, shift
from qwen3_parity.diagnosis.findings.numbers.pooled import pooled_statistic
from qwen3_parity.diagnosis.findings.numbers.roundings import rescaled_rows, scattered
from qwen3_parity.diagnosis.findings.numbers.rows import rows_sum, visible_zero
from qwen3_parity.diagnosis.findings.numbers.values import dropout, not_finite
from qwen3_parity.diagnosis.findings.provenance.added import added
from qwen3_parity.diagnosis.findings.provenance.channels import other_channels
from qwen3_parity.diagnosis.findings.provenance.elsewhere import stands_elsewhere
from qwen3_parity.diagnosis.findings.provenance.memory import in_memory
from qwen3_parity.diagnosis.findings.provenance.read_elsewhere import read_elsewhere
from qwen3_parity.diagnosis.findings.provenance.statistic import other_statistic
from qwen3_parity.diagnosis.findings.structure.sums import summed
from qwen3_parity.diagnosis.findings.structure.weights import weight_structure
from qwen3_parity.diagnosis.findings.wrong_tap import Key, WrongTap

__all__ = ["Finding", "Key", "WrongTap", "findings"]

FINDERS: tuple[Callable[[WrongTap], Finding | None], ...] = (
    not_finite,
    counted_off,
    bands,
    factor,
    visible_zero,
    axis_order,
    shift,
    stands_elsewhere,
    read_elsewhere,
    keys_read,
    dropout,
    weight_structure,
    permuted,
    other_channels,
    in_memory,
    other_statistic,
    summed,
    added,
    rows_sum,
    clamped,
    axis_offset,
    group_factor,
    rescaled_rows,
    key_parts,
    key_bias,
    grid,
    function,
    rounded_input,
    approximated,
    scattered,
    concentrated,
    unrelated,
    size,
)
"""In the order of preference among findings that tell equally much."""
_COPIES, _ALIKE = frozenset({"from.other_step", "from.other_layer"}), 0.4
"""Two taps that are wrong alike have a cause in common: that each holds the other says not which."""
_TOLD = 0.9
"""What tells so much says why errors scatter."""

OF_SEVERAL: tuple[Callable[[Sequence[WrongTap]], Finding | None], ...] = (
    pooled_statistic,
    position_factor,
    step_offset,
)
"""What the wrong taps of a place say together, before what the first of them says alone."""


def findings(tap: WrongTap, alike: Sequence[WrongTap] = ()) -> list[Finding]:
    """Everything that the numbers of a wrong tap say, what tells most first; `alike` are others of its place."""
    with np.errstate(all="ignore"):
        every = [finding for several in OF_SEVERAL if (finding := several([tap, *alike])) is not None]
        every += [finding for finder in FINDERS if (finding := finder(tap)) is not None]
        narrow = [finding for finding in every if finding.name == "fit.grid"]
        if narrow and tap.reproduced(tap.truth)[tap.judged].all():  # near enough: nothing else is otherwise
            return narrow
        if any(np.array_equal(further.actual, tap.actual) for further in alike):
            every = [replace(each, weight=_ALIKE) if each.name in _COPIES else each for each in every]
        every = _without_chance(every)
        every = [from_tap_to_tap(each, tap, alike) if each.name == "fit.factor" else each for each in every]
    return sorted(every, key=lambda finding: -finding.weight)


def _without_chance(every: list[Finding]) -> list[Finding]:
    """Findings without how errors scatter where one says why, and which numbers cross their limits by such a weight."""
    causes = [finding.name for finding in every if finding.weight >= _TOLD]
    chance = {"fit.scattered"} if causes else set[str]()
    chance |= {"fit.concentrated"} if any(name.startswith("structure.") for name in causes) else set()
    return [finding for finding in every if finding.name not in chance]
