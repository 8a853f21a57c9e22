"""The floors of a whole recording, layer by layer: the truth in float64, then plain float32 against it.

Both are passes that go on where they were interrupted (`resume`). Of the truth, what is kept is each tap's floor and
scale, and its elements only where the float32 run is still to be compared with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qwen3_golden import Array, Place, Recording, Tensor, last_rows, pb, place, tensor
from qwen3_reference.floors import Key, error, frequency_floor, has_floor, larger, least, scale, spec_run
from qwen3_reference.generation_spec import with_scores
from qwen3_reference.resume import Pass
from qwen3_reference.scope import Scope
from qwen3_reference.table_rounding import table_rounding
from qwen3_reference.training_floors import spec_training, with_loss
from qwen3_reference.weights import Weights, spec_config
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, Cache
from qwen3_spec.model import Layer

_POOLED_BELOW = 500
"""Elements: the error of a smaller tap is a matter of luck, so the largest of all steps counts."""
_TRUTH = "truth."
Told = Callable[[str], None]


def _resumed(run: Pass) -> Callable[[Cache], Layer]:
    """The specification's layers, those that were finished taken from `run`."""

    def of(cache: Cache) -> Layer:
        def layer(name: str, compute: Callable[[], Array]) -> Array:
            index = int(name.rpartition(".")[2])
            state = run.kept()
            if state is None:
                remembered = len(cache.encoder_keys)
                output = compute()
                run.keep("output", output)
                if index < len(cache.keys):
                    new = slice(-output.shape[1], None)
                    run.keep("keys", cache.keys[index][:, :, new])
                    run.keep("values", cache.values[index][:, :, new])
                if len(cache.encoder_keys) > remembered:
                    run.keep("encoder_keys", cache.encoder_keys[index])
                    run.keep("encoder_values", cache.encoder_values[index])
            else:
                output = state["output"].array
                if "keys" in state:
                    cache.grow(index, state["keys"].array, state["values"].array)
                if "encoder_keys" in state:
                    cache.remember(state["encoder_keys"].array, state["encoder_values"].array)
            run.leave()
            return output

        return layer

    return of


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


def _again(
    measured: _Measured,
    weights: Weights,
    tables: Mapping[Key, Array],
    tap: Callable[[int, str, Array], None],
    arithmetic: Arithmetic,
    run: Pass,
) -> None:
    """The case with the specification: its steps, or its training step."""
    case = measured.recording.case
    if case.HasField("training"):
        padding_idx = case.training.padding_idx if case.training.HasField("padding_idx") else None
        spec_training(weights, measured.scope, padding_idx, tables, tap, arithmetic)
    else:
        spec_run(weights, measured.scope, tables, tap, arithmetic, _resumed(run))


def _truth(
    measured: _Measured, weights: Weights, tables: Mapping[Key, Array], run: Pass, told: Told, *, elements: bool
) -> None:
    """For each tap its scale, with the recording's own error as its floor; and its `elements`."""

    def keep(step: int, name: str, value: Array) -> None:
        item = measured.item(name, step)
        if item is None:
            return
        value, judged, axes = measured.cut(name, value), measured.judged(name, step), measured.places[name].axes
        found = tensor(name, np.array(scale(value, judged)), step=step)
        found.info.floor.CopyFrom(
            larger([error(item.values(), value, judged, axes), least(value, judged, axes, item.info.dtype)])
        )
        run.add(found)
        if elements:
            run.add(tensor(_TRUTH + name, value, step=step))

    with run:
        if not run.complete:
            told("float64 truth")
            _again(measured, weights, tables, keep, FLOAT64, run)
            run.end()


def _sequential(
    measured: _Measured, weights: Weights, tables: Mapping[Key, Array], truth: Pass, run: Pass, told: Told
) -> None:
    """For each tap the error of float32 with plain sequential sums, as its floor."""
    true = {item.key: item.array for item in truth}

    def compare(step: int, name: str, value: Array) -> None:
        if measured.item(name, step) is not None:
            found = tensor(name, np.zeros(0), step=step)
            expected, judged = true[_TRUTH + name, step], measured.judged(name, step)
            found.info.floor.CopyFrom(error(measured.cut(name, value), expected, judged, measured.places[name].axes))
            run.add(found)

    with run:
        if not run.complete:
            told("sequential float32")
            _again(measured, weights, tables, compare, SEQUENTIAL_FLOAT32, run)
            run.end()


def measure(
    recording: Recording,
    weights: Weights,
    tables: Mapping[Key, Array],
    folder: Path,
    told: Told = lambda _stage: None,
    advance: Callable[[int], None] = lambda _layers: None,
) -> dict[Key, pb.Floor]:
    """The floor of every float tap of a recording. The passes keep their files in `folder`, mapped, not in memory.

    `told` hears the stages in words, `advance` how many layers of both passes are done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    inputs = {item.info.name: item.array for item in recording if item.info.name.startswith("input.")}
    chosen = recording.case if recording.case.HasField("generation") else None
    scope = Scope(recording.case.config, inputs, tuple(recording.case.steps), chosen)
    found = {item.info.name: place(item.info.name, scope.config.num_hidden_layers) for item in recording}
    places = {name: spot for name, spot in found.items() if spot is not None and has_floor(spot)}
    measured = _Measured(recording, scope, places)
    plain = weights.dtype == pb.F32
    truth = Pass(folder, "truth", recording, advance)
    _truth(measured, weights, tables, truth, told, elements=plain)
    parts: dict[Key, list[pb.Floor]] = {}
    scales: dict[Key, tuple[float, float]] = {}
    for item in truth:
        if not item.info.name.startswith(_TRUTH):
            parts[item.key] = [item.info.floor]
            scales[item.key] = float(item.array[0]), float(item.array[1])
    if plain:
        run = Pass(folder, "sequential", recording, lambda layers: advance(truth.layers + layers))
        _sequential(measured, weights, tables, truth, run, told)
        for item in run:
            parts[item.key].append(item.info.floor)
    for key, floor in _tables(measured, tables).items():
        parts[key], scales[key] = [floor], (1.0, 1.0)
    sizes = {key: recording[key].array.size for key in parts}
    return with_scores(with_loss(_pooled({key: larger(some) for key, some in parts.items()}, sizes, scales)))


def _tables(measured: _Measured, tables: Mapping[Key, Array]) -> dict[Key, pb.Floor]:
    """The floors of frequencies, cos and sin: what rounding alone makes of them."""
    config, floors = spec_config(measured.scope.config), {}
    for item in measured.recording:
        name, step = item.key
        op = measured.places[name].op if name in measured.places else ""
        if op == "inv_freq":
            floors[item.key] = frequency_floor(config.head_dim, config.rope_theta, config.rope_scaling)
        elif op in ("cos", "sin"):
            prefix, _, last = name.rpartition(".")
            half = "encoder_" if last.startswith("encoder_") else ""
            positions, inv_freq = tables[f"{prefix}.{half}position_ids", step], tables[f"{prefix}.inv_freq", 0]
            unit = table_rounding(positions, inv_freq, config.attention_factor, item.info.dtype)
            judged, axes = measured.judged(name, step), measured.places[name].axes
            floors[item.key] = error(unit, np.zeros_like(unit), judged, axes)
    return floors


def _pooled(
    floors: dict[Key, pb.Floor], sizes: Mapping[Key, int], scales: Mapping[Key, tuple[float, float]]
) -> dict[Key, pb.Floor]:
    """The floors of small taps: each, in units of the step's own scale, the largest of all steps.

    Absolute floors would let one loud step excuse everything in a quiet one (a token whose embedding is tiny).
    """
    small = {name for (name, _), size in sizes.items() if size < _POOLED_BELOW}
    shares: dict[str, list[pb.Floor]] = {}
    for key, floor in floors.items():
        if key[0] in small and all(scales[key]):
            rms, largest = scales[key]
            shares.setdefault(key[0], []).append(_times(floor, 1 / rms, 1 / largest))
    pooled = dict(floors)
    for key, floor in floors.items():
        if key[0] in shares:
            pooled[key] = larger([floor, _times(larger(shares[key[0]]), *scales[key])])
    return pooled


def _times(floor: pb.Floor, rms: float, largest: float) -> pb.Floor:
    return pb.Floor(rms=floor.rms * rms, max=floor.max * largest, row=floor.row * rms, head=floor.head * rms)
