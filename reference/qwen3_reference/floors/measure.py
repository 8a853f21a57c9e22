"""The floors of a whole recording, layer by layer: the truth in float64, then what honest runs make of it.

All are passes that go on where they were interrupted (`resume`). Of the truth, what is kept is each tap's floor and
scale, and of float32 its elements, with which plain float32 and two runs by other angles are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, Place, Recording, Tensor, last_rows, pb, place, tensor
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_reference.checkpoints.weights import Weights
from qwen3_reference.floors.arithmetics import error, floor_of, frequency_floor, has_floor, larger, scale, spec_run
from qwen3_reference.floors.own_angles import ULPS, half_of, moved_tables
from qwen3_reference.floors.pooled import pooled
from qwen3_reference.floors.resume import Pass
from qwen3_reference.floors.resumed_spec import resumed_spec
from qwen3_reference.floors.scope import Scope
from qwen3_reference.floors.table_rounding import table_rounding
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic
from qwen3_spec.sweep import Key

_TRUTH = "truth."
Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Measured:
    """A recording, and what its taps are judged by."""

    recording: Recording
    scope: Scope
    places: Mapping[str, Place]

    def item(self, name: str, step: int) -> Tensor | None:
        """The recorded tap, if it has a floor."""
        return self.recording.get(name, step) if name in self.places else None

    def cut(self, name: str, array: Array) -> Array:
        """The rows of a tap that the case keeps."""
        return last_rows(array, self.places[name], self.recording.case.rows)

    def judged(self, name: str, step: int) -> Array:
        """Which elements of the tap count; broadcasts to its shape."""
        return self.cut(name, self.scope.judged(self.places[name], step))


def _truth(
    measured: _Measured, weights: Weights, tables: Mapping[Key, Array], run: Pass, progress: Progress, *, elements: bool
) -> None:
    """For each tap its scale, with the recording's own error as its floor; and its `elements`."""

    def keep(step: int, name: str, value: Array) -> None:
        item = measured.item(name, step)
        if item is None:
            return
        value, judged, axes = measured.cut(name, value), measured.judged(name, step), measured.places[name].axes
        entry = tensor(name, np.array(scale(value, judged)), step=step)
        entry.info.floor.CopyFrom(floor_of(value, judged, axes, item.info.dtype, item.values()))
        run.add(entry)
        if elements:
            run.add(tensor(_TRUTH + name, value, step=step))

    with run:
        if not run.complete:
            progress("float64 truth")
            spec_run(weights, measured.scope, tables, keep, FLOAT64, resumed_spec(run))
            run.end()


def _compared(
    measured: _Measured,
    weights: Weights,
    tables: Mapping[Key, Array],
    truth: Mapping[Key, Array],
    run: Pass,
    arithmetic: Arithmetic,
) -> dict[Key, pb.Floor]:
    """For each tap the error of another run of the specification, by these tables and in this arithmetic."""

    def compare(step: int, name: str, value: Array) -> None:
        if measured.item(name, step) is not None:
            entry = tensor(name, np.zeros(0), step=step)
            expected, judged = truth[_TRUTH + name, step], measured.judged(name, step)
            entry.info.floor.CopyFrom(error(measured.cut(name, value), expected, judged, measured.places[name].axes))
            run.add(entry)

    with run:
        if not run.complete:
            spec_run(weights, measured.scope, tables, compare, arithmetic, resumed_spec(run))
            run.end()
    return {item.key: item.info.floor for item in run}


class Floors(NamedTuple):
    """The floor of every float tap; and where it is wider, that of runs that rotate by angles of their own."""

    floor: dict[Key, pb.Floor]
    own_angles: dict[Key, pb.Floor]


def passes(dtype: int) -> int:
    """How many passes over the network `measure` makes, of a model of this dtype."""
    return 4 if dtype == pb.F32 else 1


def measure(
    recording: Recording,
    weights: Weights,
    tables: Mapping[Key, Array],
    folder: Path,
    progress: Progress = lambda _stage: None,
    advance: Callable[[int], None] = lambda _layers: None,
    known: Mapping[Key, pb.Floor] | None = None,
) -> Floors:
    """The floors of a recording. The passes keep their files in `folder`, mapped, not in memory.

    Half precision has no floors of own angles: what an honest frequency moves is less than its roundings, within the
    headroom of them up to positions of some 30,000.

    `progress` hears the stages in words, `advance` how many layers of all passes are done. `known` are floors that were
    measured before: they stay, and those of own angles are measured beside them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    measured = _measured(recording)
    runs: list[Pass] = []

    def pass_of(name: str) -> Pass:
        done = sum(run.layers for run in runs)
        runs.append(Pass(folder, name, recording, lambda layers: advance(done + layers)))
        return runs[-1]

    truth = pass_of("truth")
    plain = weights.dtype == pb.F32
    _truth(measured, weights, tables, truth, progress, elements=plain)
    parts: dict[Key, list[pb.Floor]] = {}
    scales: dict[Key, tuple[float, float]] = {}
    for item in truth:
        if not item.info.name.startswith(_TRUTH):
            parts[item.key] = [item.info.floor]
            scales[item.key] = float(item.array[0]), float(item.array[1])
    true = {item.key: item.array for item in truth}
    another = partial(_compared, measured, weights)
    if plain and known is None:
        progress("sequential float32")
        for key, floor in another(tables, true, pass_of("sequential"), SEQUENTIAL_FLOAT32).items():
            parts[key].append(floor)
    floors = {key: larger(measurements) for key, measurements in parts.items()}
    for key, floor in table_floors(recording, tables).items():
        floors[key], scales[key] = floor, (1.0, 1.0)
    sizes = {key: recording[key].array.size for key in floors}

    def finished(floors: dict[Key, pb.Floor]) -> dict[Key, pb.Floor]:
        return _with_loss(pooled(floors, sizes, scales))

    floors = finished(floors) if known is None else {key: known[key] for key in floors}
    if not plain:
        return Floors(floors, {})
    wide = {key: pb.Floor.FromString(floor.SerializeToString()) for key, floor in floors.items()}
    progress("other angles")
    for name, ulps in (("above", ULPS), ("below", -ULPS)):
        moved = moved_tables(tables, spec_config(measured.scope.config).attention_factor, ulps)
        for key, floor in another(moved, true, pass_of(name), FLOAT64).items():
            wide[key] = larger([wide[key], floor])
    own_angles = {key: larger([floors[key], floor]) for key, floor in finished(wide).items()}
    return Floors(floors, {key: floor for key, floor in own_angles.items() if _is_wider(floor, floors[key])})


def _with_loss(floors: dict[Key, pb.Floor]) -> dict[Key, pb.Floor]:
    """The same, with the floor of the loss no less than the largest of a logit.

    It is a sum of logits less their log-sum-exp, and one number: how far it went in one run is luck.
    """
    least = max((floor.max for (name, _), floor in floors.items() if name == "logits"), default=0.0)
    for (name, _), floor in floors.items():
        if name == "loss":
            floor.rms, floor.max, floor.row = (max(number, least) for number in (floor.rms, floor.max, floor.row))
    return floors


_WIDER = 1.01


def _is_wider(wide: pb.Floor, floor: pb.Floor) -> bool:
    """Whether one of its numbers is larger, by more than what pooling anew rounds."""
    return any(getattr(wide, number) > _WIDER * getattr(floor, number) for number in ("rms", "max", "row", "head"))


def _measured(recording: Recording) -> _Measured:
    inputs = {item.info.name: item.array for item in recording if item.info.name.startswith("input.")}
    scope = Scope(recording.case.config, inputs, tuple(recording.case.steps), recording.case)
    candidates = {item.info.name: place(item.info.name, scope.config.num_hidden_layers) for item in recording}
    places = {name: tap for name, tap in candidates.items() if tap is not None and has_floor(tap)}
    return _Measured(recording, scope, places)


def table_floors(recording: Recording, tables: Mapping[Key, Array]) -> dict[Key, pb.Floor]:
    """The floors of frequencies, cos and sin: what rounding alone makes of them."""
    measured = _measured(recording)
    config, floors = spec_config(measured.scope.config), {}
    for item in measured.recording:
        name, step = item.key
        op = measured.places[name].op if name in measured.places else ""
        if op == "inv_freq":
            floors[item.key] = frequency_floor(config.head_dim, config.rope_theta, config.rope_scaling)
        elif op in ("cos", "sin"):
            parts = half_of(name)
            assert parts is not None
            prefix, half = parts
            positions, inv_freq = tables[f"{prefix}.{half}position_ids", step], tables[f"{prefix}.inv_freq", 0]
            unit = table_rounding(positions, inv_freq, config.attention_factor, item.info.dtype)
            judged, axes = measured.judged(name, step), measured.places[name].axes
            floors[item.key] = error(unit, np.zeros_like(unit), judged, axes)
    return floors
