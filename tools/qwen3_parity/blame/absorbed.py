"""An op that is wrong alone, judged once more as part of the kernel that it may be in: right there is right.

Engines run several ops as one kernel and record the taps between them apart: a product accumulates onto the residual,
an activation goes into the product unrounded, keys are rotated on their way into the cache. What was recorded is then
not quite what was read: it differs by the rounding of the op that made it, which may be large beside the op's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from qwen3_golden import Array, Tensor, pattern_of, pb
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.tap_judge import TapJudge, judge
from qwen3_parity.blame.values import made_once
from qwen3_parity.judge.budgets import ROUNDOFF
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_spec import ops
from qwen3_spec.site import Site

Reads = Mapping[tuple[str, int], Sequence[str]]
_CLEAR = 0.5
"""A share of the headroom that leaves nothing to ask."""
_CLOSE = ("cos", "sin")
"""Judged by the angles that are nearest to what was recorded: there is nothing that they may have absorbed."""
_PARTS = (2, 4, 8)
"""Processes that usually share a product."""
_ROW_PARALLEL = ("o_proj", "down_proj")
"""Products that are summed over processes: what goes in is dealt out to them by heads or channels."""


def absorbed(verdicts: Sequence[OpVerdict], reads: Reads, tap_judge: TapJudge) -> list[OpVerdict]:
    """The verdicts, each of them at its best with what the op may have absorbed; `reads` as in `way_back.excused`.

    Only ops that are right alone are computed through: a wrong one stays what is wrong. A choice never is: what was
    chosen is what the op behind it was given, whatever else might have been chosen as well.
    """
    by_key, values = {(verdict.name, verdict.step): verdict for verdict in verdicts}, tap_judge.values
    for key, verdict in by_key.items():
        if verdict.share <= _CLEAR or verdict.op in _CLOSE:
            continue
        item = values.recording[key]
        names = tuple(
            name
            for name in reads[key]
            if _right_alone(by_key, name, verdict.step) and not values.is_choice(name, verdict.step)
        )
        again = [judge(verdict, *wider) for wider in _wider(item, names, tap_judge)]
        # What stays wrong is a fault of its own: the ops that it might have absorbed have no part in it.
        by_key[key] = min(
            [verdict, *(rejudged for rejudged in again if rejudged.passed and not rejudged.reason)],
            key=lambda rejudged: rejudged.share,
        )
    return list(by_key.values())


def _right_alone(by_key: Mapping[tuple[str, int], OpVerdict], name: str, step: int) -> bool:
    verdict = by_key.get((name, step)) or (by_key.get((name, 0)) if made_once(name) else None)
    return verdict is not None and verdict.passed and not verdict.reason


def _wider(item: Tensor, names: Sequence[str], tap_judge: TapJudge) -> Iterator[tuple[Evidence, Array | float]]:
    """The tap's op with each of its inputs' ops, then with all of them; and as a product in rounded parts."""
    values, patterns = tap_judge.values, [pattern_of(name) for name in names]
    for dropped in dict.fromkeys([*((pattern,) for pattern in patterns), tuple(patterns)]):
        evidence = tap_judge.another(dropped=values.dropped.union(dropped)).evidence(item) if dropped else ""
        if not isinstance(evidence, str) and evidence.actual.dtype.kind == "f":
            yield evidence, _sum_begins_with_residual(evidence.site, dropped)
    if item.info.name.endswith(_ROW_PARALLEL) and values.dtype in (pb.BF16, pb.F16):
        evidence = tap_judge.evidence(item)
        if not isinstance(evidence, str):
            for parts in _PARTS:
                yield evidence, ROUNDOFF[values.dtype] * _sizes_of_parts(evidence.site, parts)


def _sum_begins_with_residual(site: Site, dropped: Sequence[str]) -> Array | float:
    """What a product adds when each of its sums begins with the residual, `[batch, query, hidden]`: sqrt(k) roundings.

    0 for every other op.
    """
    if site.place.op != "residual":
        return 0.0
    total: Array | float = 0.0
    for name, addend in zip(site.names, reversed(site.inputs), strict=True):
        place = site.values.place(name)
        if place is None or place.op != "linear" or pattern_of(name) not in dropped:
            continue
        terms = site.values.parameters(place)["weight"].shape[1]
        total = np.hypot(total, ROUNDOFF[pb.F32] * math.sqrt(terms) * np.abs(addend))
    return total


def _sizes_of_parts(site: Site, parts: int) -> Array:
    """The sum of the magnitudes of a product's equal parts, `[batch, query, out]`."""
    x, weight = site.inputs[0], site.parameters["weight"]
    x = x.reshape(*x.shape[:2], -1)
    ends = [round(x.shape[-1] * part / parts) for part in range(parts + 1)]
    cuts = [slice(start, stop) for start, stop in pairwise(ends)]
    return np.asarray(sum(np.abs(ops.linear.forward(x[..., cut], weight[:, cut])) for cut in cuts))
