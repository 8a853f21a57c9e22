"""TF32 as an arithmetic: products of numbers with 10 bits of mantissa, summed in float32; and the floors it has.

Nothing here judges a candidate of anybody: the contract's floors are float32's, and TF32 is never parity in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pb, place
from qwen3_reference.floors.arithmetics import error, has_floor, larger, spec_run
from qwen3_reference.floors.own_angles import rope_tables
from qwen3_reference.floors.scope import Scope
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic
from qwen3_spec.sweep import Key

_DROPPED = 13
"""Bits of a float32's mantissa that a TF32 does not have."""


def rounded(a: Array) -> Array:
    """The nearest TF32 of each element, ties to even, as float32."""
    bits = np.ascontiguousarray(a, np.float32).view(np.uint32)
    half = np.uint32((1 << _DROPPED - 1) - 1) + (bits >> np.uint32(_DROPPED) & np.uint32(1))
    shortened = (bits + half) & ~np.uint32((1 << _DROPPED) - 1)
    return np.asarray(np.where(np.isfinite(a), shortened.view(np.float32), a))


def _product(a: Array, b: Array) -> Array:
    return np.asarray(np.matmul(rounded(a), rounded(b)))


TF32 = Arithmetic(np.float32, _product, SEQUENTIAL_FLOAT32.sum)


def in_tf32(golden: Recording, weights: Mapping[str, Array]) -> Recording:
    """The golden with the floors of TF32: float32's, or the specification's error in TF32 where that is more."""
    inputs = {item.info.name: item.array for item in golden if item.info.name.startswith("input.")}
    scope = Scope(golden.case.config, inputs, tuple(golden.case.steps), golden.case)
    tables = rope_tables(golden)
    floors = {item.key: floor_of(item) for item in golden if item.info.HasField("floor")}
    truth: dict[Key, Array] = {}

    def keep(step: int, name: str, value: Array) -> None:
        if (name, step) in floors:
            truth[name, step] = value

    def measure(step: int, name: str, value: Array) -> None:
        where = place(name, golden.case.config.num_hidden_layers)
        if (name, step) in floors and where is not None and has_floor(where):
            drift = error(value, truth[name, step], scope.judged(where, step), where.axes)
            floors[name, step] = larger([floors[name, step], drift])

    spec_run(weights, scope, tables, keep, FLOAT64)
    spec_run(weights, scope, tables, measure, TF32)
    return replace(golden, tensors=[_with(item, floors.get(item.key)) for item in golden])


def floor_of(item: Tensor) -> pb.Floor:
    """The wider of a tap's floors, that of runs that rotate by angles of their own where there is one."""
    return item.info.own_angles_floor if item.info.HasField("own_angles_floor") else item.info.floor


def _with(item: Tensor, floor: pb.Floor | None) -> Tensor:
    if floor is None:
        return item
    info = pb.Tensor()
    info.CopyFrom(item.info)
    info.floor.CopyFrom(floor)
    info.ClearField("own_angles_floor")
    return replace(item, info=info)
