"""Layers that hand the residual on apart: what they give is a branch, and the sum is made in the next norm.

vLLM and others fuse the residual into the norm behind it: a layer returns what its last product gives beside the
stream that it is added to later. Recorded as the layer's output, the branch stands at a place that this network has
nowhere. It is no divergence of the model, and it is no proof either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qwen3_golden import Array, Place, Recording, Tensor, pattern_of, pb, place
from qwen3_parity.judge.conventions.distances import distance
from qwen3_parity.judge.conventions.names import listed, renamed
from qwen3_parity.judge.scope import Scope

_NEAR = 0.05
"""How near the golden a branch comes, and what follows it, relative to the golden's RMS."""


def dual_streams(
    actual: Recording, expected: Recording, _weights: Mapping[str, Array] | None
) -> tuple[Recording, list[str]]:
    """Sums with the residual that hold the branch alone, where what follows them is right: judged as the branch.

    Where the branch is recorded, too, they are left out. Nobody has compared the sums then, and the note says so.
    """
    scope = Scope(expected)
    groups = _branches(actual, expected, scope)
    behind = {
        pattern: [_follows(item, groups, actual, expected, scope) for item, _ in sums]
        for pattern, sums in groups.items()
    }
    dual = {pattern for pattern, follows in behind.items() if any(follows) and False not in follows}
    if not dual:
        return actual, []
    branches = {pattern_of(_branch(at)): pattern for pattern in groups if pattern in dual for _, at in groups[pattern]}
    tensors = list[Tensor]()
    for item in actual:
        at = _place(item, expected)
        if at is None or at.pattern not in dual:
            tensors.append(item)
        elif (key := (_branch(at), item.info.step)) not in actual and key in expected:
            tensors.append(renamed(item, *key))
    run = pb.Run.FromString(actual.run.SerializeToString())
    there = {pattern_of(item.info.name) for item in tensors}
    declared = [pattern for pattern in actual.run.materialised if pattern not in dual]
    run.materialised[:] = dict.fromkeys([*declared, *(branch for branch in branches if branch in there)])
    first, sums = next(iter(branches)).rpartition(".")[2], sorted(branches.values())
    note = (
        f"dual residual stream: {listed(sums)} hold what {listed(sorted(branches))} give, and the residual is handed "
        f'on apart; the sums were not compared: add both before they are recorded, or map it ("model.layers.{{layer}}" '
        f'= "{first}")'
    )
    return replace(actual, tensors=tensors, run=run), [note]


def _place(item: Tensor, expected: Recording) -> Place | None:
    return place(item.info.name, expected.case.config.num_hidden_layers)


def _branches(actual: Recording, expected: Recording, scope: Scope) -> dict[str, list[tuple[Tensor, Place]]]:
    """The sums with the residual of which all hold the branch alone, by their pattern."""
    groups = dict[str, list[tuple[Tensor, Place]]]()
    for item in actual:
        at, golden_tap = _place(item, expected), expected.get(*item.key)
        if at is not None and at.op == "residual" and golden_tap is not None and _same_kind(item, golden_tap):
            groups.setdefault(at.pattern, []).append((item, at))
    return {
        pattern: sums
        for pattern, sums in groups.items()
        if all(_is_branch(item, at, actual, expected, scope) for item, at in sums)
    }


def _same_kind(item: Tensor, golden_tap: Tensor) -> bool:
    return item.is_float and golden_tap.is_float and item.array.shape == golden_tap.array.shape


def _branch(tap_place: Place) -> str:
    """The product that a sum adds to the residual."""
    return tap_place.inputs[-1][0]


def _is_branch(item: Tensor, tap_place: Place, actual: Recording, expected: Recording, scope: Scope) -> bool:
    """Whether a sum is far from the golden's, and is the branch: bit for bit the recorded one, or near the golden's."""
    if distance(item, expected[item.key], scope) <= _NEAR:
        return False
    key = _branch(tap_place), item.info.step
    recorded, golden_tap = actual.get(*key), expected.get(*key)
    if recorded is not None:
        return bool(np.array_equal(recorded.values(), item.values()))
    return golden_tap is not None and _same_kind(item, golden_tap) and distance(item, golden_tap, scope) <= _NEAR


def _follows(
    item: Tensor, dual: Mapping[str, object], actual: Recording, expected: Recording, scope: Scope
) -> bool | None:
    """Whether the first recorded float behind a sum, no such sum itself, is near the golden; None without one."""
    passed = False
    for golden_tap in expected:
        if golden_tap.key == item.key:
            passed = True
        elif passed and golden_tap.info.step == item.info.step and golden_tap.is_float:
            tap_place = place(golden_tap.info.name, expected.case.config.num_hidden_layers)
            mine = actual.get(*golden_tap.key)
            copied = tap_place is None or tap_place.op == "copy" or tap_place.pattern in dual
            if mine is not None and not copied and _same_kind(mine, golden_tap):
                return distance(mine, golden_tap, scope) <= _NEAR
    return None
