"""Noise floors: how far float32 drifts at each tap of a whole run, measured, in the tap's own unit.

Floor = the larger of the error of what was recorded (HF) and the error of the specification run in float32 with plain
sequential sums, both against the specification in float64, as whole runs that share HF's cos, sin and positions. Never
below half a unit in the last place of the tap's scale. Only judged elements count. In bfloat16 the recorded run's error
is the floor: there the specification's float32 has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from qwen3_golden import Array, Place, Recording, Writer, last_rows, minor_of, pb, place, read, tensor
from qwen3_reference.scope import Scope
from qwen3_reference.weights import Weights, spec_config
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, Cache, decoder_step, encoder

Key = tuple[str, int]
_EXACT = frozenset({"input", "position_ids", "embedding", "mask", "argmax"})
_POOLED_BELOW = 500
"""Elements: the error of a smaller tap is a matter of luck, so the largest of all steps counts."""
_MANTISSA: dict[int, int] = {pb.F32: 24, pb.BF16: 8, pb.F16: 11}


def has_floor(place: Place) -> bool:
    """Whether a tap is judged by a floor; the others are compared exactly."""
    return place.op not in _EXACT


def spec_run(
    weights: Mapping[str, Array],
    scope: Scope,
    tables: Mapping[Key, Array],
    tap: Callable[[int, str, Array], None],
    arithmetic: Arithmetic,
) -> None:
    """The case once more with the specification, given the recorded cos and sin (`tables`); taps go to `tap`."""
    config, inputs = spec_config(scope.config), scope.inputs
    hidden = encoder_mask = None
    if "input.encoder_input_ids" in inputs:
        encoder_mask = inputs["input.encoder_attention_mask"]
        hidden = encoder(
            weights,
            config,
            inputs["input.encoder_input_ids"],
            encoder_mask,
            tables["encoder.cos", 0],
            tables["encoder.sin", 0],
            lambda name, value: tap(0, name, value),
            arithmetic,
        )
    cache, end = Cache(), 0
    for step, length in enumerate(scope.steps):
        start, end = end, end + length
        decoder_step(
            weights,
            config,
            inputs["input.decoder_input_ids"][:, start:end],
            inputs["input.decoder_attention_mask"][:, :end],
            tables["decoder.cos", step],
            tables["decoder.sin", step],
            cache,
            lambda name, value, step=step: tap(step, name, value),  # type: ignore[misc]
            arithmetic,
            hidden,
            encoder_mask,
            tables.get(("decoder.encoder_cos", 0)),
            tables.get(("decoder.encoder_sin", 0)),
        )


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


def larger(floors: Iterable[pb.Floor]) -> pb.Floor:
    """The larger of each number."""
    given = list(floors)
    return pb.Floor(
        rms=max(f.rms for f in given),
        max=max(f.max for f in given),
        row=max(f.row for f in given),
        head=max(f.head for f in given),
    )


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


def frequency_floor() -> pb.Floor:
    """inv_freq: one ulp of each frequency, relative: they span decades, and the powers of libraries differ by ulps."""
    return pb.Floor(rms=2.0**-23, max=2.0**-23, row=2.0**-23)


def _table_floor(positions: Array, inv_freq: Array, judged: Array, axes: Iterable[str], dtype: int) -> pb.Floor:
    """cos and sin: the angle is rounded once, and so is the result: 2^-24 · (1 + |angle|)."""
    angle = np.abs(positions[..., None].astype(np.float64) * inv_freq.astype(np.float64))
    unit = 2.0**-24 * (1 + np.concatenate([angle, angle], axis=-1))
    if dtype != pb.F32:
        unit = unit + 2.0 ** -_MANTISSA[dtype]
    return error(unit, np.zeros_like(unit), judged, axes)


def measure(
    recording: Recording,
    weights: Weights,
    tables: Mapping[Key, Array],
    scratch: Path,
    progress: Callable[[str], None] = lambda _stage: None,
) -> dict[Key, pb.Floor]:
    """The floor of every float tap of a recording. The truth is kept in the file `scratch`, mapped, not in memory."""
    scope = Scope(
        recording.case.config,
        {item.info.name: item.array for item in recording if item.info.name.startswith("input.")},
        tuple(recording.case.steps),
    )
    layers = recording.case.config.num_hidden_layers
    wanted = {item.key: item for item in recording}
    places: dict[str, Place] = {}
    for name, _ in wanted:
        found = place(name, layers)
        if found is not None and has_floor(found):
            places[name] = found
    parts: dict[Key, list[pb.Floor]] = {}
    sizes: dict[Key, int] = {}
    scales: dict[Key, tuple[float, float]] = {}

    rows = recording.case.rows

    def is_wanted(step: int, name: str) -> bool:
        return name in places and (name, step) in wanted

    def judged_of(name: str, step: int) -> Array:
        return last_rows(scope.judged(places[name], step), places[name], rows)

    progress("float64 truth")
    with Writer(scratch, digests=False, schema_minor=minor_of(recording.case)) as writer:

        def keep(step: int, name: str, value: Array) -> None:
            if not is_wanted(step, name):
                return
            value = last_rows(value, places[name], rows)
            writer.add(tensor(name, value, step=step))
            item, judged = wanted[name, step], judged_of(name, step)
            axes = places[name].axes
            recorded = error(item.values(), value, judged, axes)
            parts[name, step] = [recorded, least(value, judged, axes, item.info.dtype)]
            sizes[name, step], scales[name, step] = value.size, scale(value, judged)

        spec_run(weights, scope, tables, keep, FLOAT64)
        writer.finish(recording.case, recording.provenance, recording.run)
    if weights.dtype == pb.F32:
        progress("sequential float32")
        truth = read(scratch)

        def compare(step: int, name: str, value: Array) -> None:
            if is_wanted(step, name):
                judged = judged_of(name, step)
                value = last_rows(value, places[name], rows)
                parts[name, step].append(error(value, truth[name, step].array, judged, places[name].axes))

        spec_run(weights, scope, tables, compare, SEQUENTIAL_FLOAT32)
    for key, item in wanted.items():
        name, step = key
        if name in places and places[name].op == "inv_freq":
            parts[key] = [frequency_floor()]
            sizes[key], scales[key] = item.array.size, (1.0, 1.0)
        elif name in places and places[name].op in ("cos", "sin"):
            prefix, _, last = name.rpartition(".")
            half = "encoder_" if last.startswith("encoder_") else ""
            positions, inv_freq = tables[f"{prefix}.{half}position_ids", step], tables[f"{prefix}.inv_freq", 0]
            judged = judged_of(name, step)
            parts[key] = [_table_floor(positions, inv_freq, judged, places[name].axes, item.info.dtype)]
            sizes[key], scales[key] = item.array.size, (1.0, 1.0)
    floors = {key: larger(found) for key, found in parts.items()}
    return _pooled(floors, sizes, scales)


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
