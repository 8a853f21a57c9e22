"""Noise floors: how far float32 drifts at each tap of a whole run, measured, in the tap's own unit.

Floor = the larger of the error of what was recorded (HF) and the error of the specification run in float32 with plain
sequential sums, both against the specification in float64, as whole runs that share HF's cos, sin and positions. Never
below half a unit in the last place of the tap's scale. Only judged elements count. In bfloat16 the recorded run's error
is the floor: there the specification's float32 has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from qwen3_golden import Array, Network, Place, pb
from qwen3_reference.checkpoints.classic_weights import classic_network
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_reference.floors.scope import Scope
from qwen3_reference.floors.table_rounding import frequency_rounding
from qwen3_spec import Arithmetic, RopeScaling
from qwen3_spec.ops import OPS
from qwen3_spec.sweep import Key, Layer, Specification, walked

_TABLES = ("position_ids", "inv_freq", "cos", "sin")
_MANTISSA: dict[int, int] = {pb.F32: 24, pb.BF16: 8, pb.F16: 11}


def has_floor(place: Place) -> bool:
    """Whether a tap is judged by a floor; the others are compared exactly."""
    return place.op != "input" and not OPS[place.op].exact


def specification(
    weights: Mapping[str, Array], scope: Scope, tables: Mapping[Key, Array], arithmetic: Arithmetic
) -> Specification:
    """The case as the specification runs it, given its inputs and the recorded cos and sin (`tables`)."""
    case = pb.Case(config=scope.config, steps=scope.steps)
    if scope.case is not None:
        case.CopyFrom(scope.case)
        case.ClearField("rows")  # of a case that keeps some rows, every one is computed
    stacks = ["encoder"] * ("input.encoder_attention_mask" in scope.inputs) + ["decoder"] * bool(scope.steps)
    stacks += ["gradient"] * ("input.labels" in scope.inputs)
    stacks = [classic_network(scope.config)] if scope.config.HasField("classic_encoder") else stacks
    known = {(name, 0): value for name, value in scope.inputs.items()}
    known |= {key: value for key, value in tables.items() if key[0].endswith(_TABLES)}
    config = spec_config(scope.config)
    return Specification(Network(scope.config, frozenset(stacks)), case, config, weights, known, arithmetic)


def spec_run(
    weights: Mapping[str, Array],
    scope: Scope,
    tables: Mapping[Key, Array],
    tap: Callable[[int, str, Array], None],
    arithmetic: Arithmetic,
    layer: Callable[[Specification], Layer] = lambda _run: walked,
) -> None:
    """The case once more with the specification; taps go to `tap(step, name, value)`. `layer(run)` runs each layer.

    Positions, their tables and the ids that are chosen are the reference's own, and no taps of this run.
    """
    run = specification(weights, scope, tables, arithmetic)

    def filtered_tap(step: int, name: str, value: Array) -> None:
        if not name.endswith((*_TABLES, "generated_ids")):
            tap(step, name, value)

    run.walk(filtered_tap, layer(run))


def _rms(square: Array, count: Array, axes: tuple[int, ...]) -> Array:
    """Root mean square over `axes` of what is judged; 0 where nothing is."""
    total, number = square.sum(axis=axes), count.sum(axis=axes)
    return np.asarray(np.sqrt(total / np.maximum(number, 1)))


def error(actual: Array, expected: Array, judged: Array, axes: Iterable[str]) -> pb.Floor:
    """RMS, maximum, worst row and worst head of `actual - expected` over the judged elements, in float64."""
    names = tuple(axes)
    judged = np.broadcast_to(judged, expected.shape)
    square = np.where(judged, actual.astype(np.float64) - expected, 0.0) ** 2
    every = tuple(range(len(names)))
    position = next((names.index(name) for name in ("query", "key") if name in names), 0)
    rows = _rms(square, judged, tuple(axis for axis in every if axis not in (0, position)) or every)
    head = next((axis for axis, name in enumerate(names) if name in ("heads", "kv_heads")), None)
    heads = np.zeros(1) if head is None else _rms(square, judged, tuple(axis for axis in every if axis != head))
    return pb.Floor(
        rms=float(_rms(square, judged, every)),
        max=float(np.sqrt(square.max(initial=0.0))),
        row=float(rows.max(initial=0.0)),
        head=float(heads.max(initial=0.0)),
    )


def floor_of(truth: Array, judged: Array, axes: Iterable[str], dtype: int, *runs: Array) -> pb.Floor:
    """The floor of a tap: how far `runs` are from the truth at most, and never less than its storage rounds."""
    axes = tuple(axes)
    return larger([*(error(run, truth, judged, axes) for run in runs), least(truth, judged, axes, dtype)])


def larger(floors: Iterable[pb.Floor]) -> pb.Floor:
    """The larger of each number."""
    floors = list(floors)
    return pb.Floor(**{name: max(getattr(floor, name) for floor in floors) for name in ("rms", "max", "row", "head")})


def half_ulp(value: float, dtype: int) -> float:
    """Half a unit in the last place of a number of this size, in `dtype`."""
    return float(np.ldexp(1.0, int(np.frexp(max(abs(value), 1e-30))[1]) - _MANTISSA[dtype] - 1))


def scale(truth: Array, judged: Array) -> tuple[float, float]:
    """RMS and largest magnitude of the judged elements; 0 where there are none."""
    counted = np.abs(truth[np.broadcast_to(judged, truth.shape)])
    return (float(np.sqrt(np.mean(counted**2))), float(counted.max())) if counted.size else (0.0, 0.0)


def least(truth: Array, judged: Array, axes: Iterable[str], dtype: int) -> pb.Floor:
    """Half an ULP of the tap's scale: of its RMS, and for the maximum of its largest element."""
    rms, largest = (half_ulp(value, dtype) for value in scale(truth, judged))
    has_heads = bool({"heads", "kv_heads"} & set(axes))
    return pb.Floor(rms=rms, max=largest, row=rms, head=rms if has_heads else 0.0)


def frequency_floor(head_dim: int, theta: float, scaling: RopeScaling | None) -> pb.Floor:
    """inv_freq: the RMS and the largest of what honest float32 moves it by, relative to each frequency."""
    rounding = frequency_rounding(head_dim, theta, scaling)
    rms = float(np.sqrt(np.mean(rounding**2)))
    return pb.Floor(rms=rms, max=float(rounding.max()), row=rms)
