"""A golden whose truth is the specification, made then and there: no Hugging Face, no torch.

Its values are those of float64, rounded once; its floors are what honest float32 makes of the same case.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pattern_of, pb, place, table, tensor, write
from qwen3_golden.op_table import OP_TABLE
from qwen3_golden.recording import plain_provenance
from qwen3_golden.weight_axes import HEAD
from qwen3_parity.conformance.run import CHECKPOINT, GOLDEN
from qwen3_parity.judge.exchanged import SPECIFICATION
from qwen3_reference.cases.op_specs import EXACT, specified
from qwen3_reference.checkpoints.published import config_json
from qwen3_reference.checkpoints.safetensors_writer import write_shards
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_reference.checkpoints.weights import (
    checkpoint_message,
    expected_tensors,
    load_weights,
    parameters,
)
from qwen3_reference.floors.arithmetics import error, floor_of, has_floor, larger, least, scale, specification
from qwen3_reference.floors.measure import table_floors
from qwen3_reference.floors.own_angles import ULPS, moved_tables
from qwen3_reference.floors.pooled import pooled
from qwen3_reference.floors.scope import Scope
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, ops
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site
from qwen3_spec.sweep import Key, Specification


def write_checkpoint(config: pb.ModelConfig, weight: Callable[[str, tuple[int, ...]], Array], folder: Path) -> None:
    """A Hugging Face directory: config.json and float32 weights, `weight(name, shape)` each."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = expected_tensors(config)
    if not config.tie_word_embeddings:
        shapes[HEAD] = (config.vocab_size, config.hidden_size)
    text = json.dumps(config_json(config, "float32"), indent=2, sort_keys=True)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")
    content = {name: weight(name, shape).astype("<f4").tobytes() for name, shape in shapes.items()}
    write_shards(folder, shapes, "F32", 1, lambda name: [lambda: content[name]])


def write_network(
    case: pb.Case, inputs: Mapping[str, Array], weight: Callable[[str, tuple[int, ...]], Array], seed: int, folder: Path
) -> None:
    """A case with its golden and its checkpoint, which is that of every stack it has, in `folder`."""
    directory = folder / CHECKPOINT
    write_checkpoint(case.config, weight, directory)
    roles = [role for role in ("encoder", "decoder") if f"input.{role}_input_ids" in inputs]
    case.checkpoint.extend(checkpoint_message(role, directory, CHECKPOINT) for role in roles)
    places = {role: directory if role in roles else None for role in ("encoder", "decoder")}
    weights = load_weights(places["encoder"], places["decoder"], pb.F32, case.config)
    run = _Run(case, inputs, weights, _tables(case, inputs))
    truth = run.computed(FLOAT64)
    values: dict[Key, Array] = {(name, 0): value for name, value in inputs.items()} | run.tables | truth
    names = {name for name, _ in values}
    taps = [_tap(case.config, name, step, value, names) for (name, step), value in values.items()]
    patterns = {pattern_of(name) for name in names}
    said = pb.Run(
        arithmetic=pb.ARITHMETIC_F32,
        backend=pb.EAGER,
        materialised=[row.pattern for row in table() if row.pattern in patterns],
    )
    recording = Recording(
        case, plain_provenance(SPECIFICATION, threads=1, seed=seed), said, taps, parameters=parameters(weights)
    )
    floors = table_floors(recording, run.tables)
    floors, own_angles = run.floors({item.key: item for item in taps}, truth, floors)
    for item in taps:
        if item.key in floors:
            item.info.floor.CopyFrom(floors[item.key])
        if item.key in own_angles:
            item.info.own_angles_floor.CopyFrom(own_angles[item.key])
    write(folder / GOLDEN, recording)


@dataclass(frozen=True)
class _Run:
    """A case as the specification runs it, its inputs and `tables` repeated along the batch where several are one."""

    case: pb.Case
    inputs: Mapping[str, Array]
    weights: Mapping[str, Array]
    tables: dict[Key, Array]

    @property
    def scope(self) -> Scope:
        return Scope(self.case.config, self.inputs, tuple(self.case.steps), self.case)

    def computed(self, arithmetic: Arithmetic, noise: np.random.Generator | None = None) -> dict[Key, Array]:
        """Every tap but positions and tables; with `noise`, each op's output off by what rounding makes of it."""
        spec, taps = specification(self.weights, self.scope, self.tables, arithmetic), dict[Key, Array]()
        if noise is not None:
            spec = _Noisy(spec.network, spec.case, spec.config, spec.weights, spec.known, noise=noise)
        spec.walk(lambda step, name, value: taps.update({(name, step): value}))
        return {key: value for key, value in taps.items() if not key[0].startswith("decoder.encoder_")}

    def times(self, number: int, tables: dict[Key, Array] | None = None) -> _Run:
        """The same `number` times in one batch, or with these tables."""
        inputs = {name: np.tile(array, (number, 1)) for name, array in self.inputs.items()}
        wide = {
            key: array if array.ndim == 1 else np.tile(array, (number, *[1] * (array.ndim - 1)))
            for key, array in self.tables.items()
        }
        return _Run(self.case, inputs, self.weights, tables or wide)

    def errors(
        self, items: Mapping[Key, Tensor], values: Mapping[Key, Array], truth: Mapping[Key, Array]
    ) -> dict[Key, pb.Floor]:
        """How far these values are from the truth, over all of the batch."""
        floors, scope = {}, self.scope
        for key, item in items.items():
            known = place(key[0], self.case.config.num_hidden_layers)
            if key in values and known is not None and has_floor(known):
                value = values[key]
                expected = np.tile(truth[key], (len(value) // len(truth[key]), *[1] * (value.ndim - 1)))
                judged = scope.judged(known, key[1])
                floors[key] = error(value, expected, judged, item.info.axes)
        return floors

    def floors(
        self, items: Mapping[Key, Tensor], truth: Mapping[Key, Array], tables: Mapping[Key, pb.Floor]
    ) -> tuple[dict[Key, pb.Floor], dict[Key, pb.Floor]]:
        """The floor of every float tap, and that of runs by angles of their own.

        One run in float32 says little of a tap with few numbers, so beside it stand eight in which every op is off by
        half its rounding unit, as far as plain sums go.
        """
        scope = self.scope
        draw = np.random.Generator(np.random.SFC64(zlib.crc32(self.case.name.encode())))
        noisy = self.times(_DRAWS)
        parts = [
            self.errors(items, self.computed(SEQUENTIAL_FLOAT32), truth),
            noisy.errors(items, noisy.computed(FLOAT64, draw), truth),
        ]
        floors, scales = dict(tables), dict.fromkeys(tables, (1.0, 1.0))
        for key, first in parts[0].items():
            known = place(key[0], self.case.config.num_hidden_layers)
            assert known is not None
            judged = scope.judged(known, key[1])
            scales[key] = scale(truth[key], judged)
            floors[key] = larger([first, parts[1][key], least(truth[key], judged, known.axes, pb.F32)])
        sizes = {key: items[key].array.size for key in floors}
        factor = spec_config(self.case.config).attention_factor
        above, below = (moved_tables(self.tables, factor, ulps) for ulps in (ULPS, -ULPS))
        both = {key: upper if upper.ndim == 1 else np.concatenate([upper, below[key]]) for key, upper in above.items()}
        moved = self.times(2, both)
        moved_floors = moved.errors(items, moved.computed(FLOAT64), truth)
        wide = {key: larger([floors[key], floor]) for key, floor in moved_floors.items()}
        floors = pooled(floors, sizes, scales)
        wide = pooled(wide, sizes, scales)
        return floors, {key: larger([floors[key], floor]) for key, floor in wide.items()}


_DRAWS = 8


@dataclass
class _Noisy(Specification):
    """A run in which every op is off by half its rounding unit."""

    noise: np.random.Generator = field(kw_only=True)

    def compute(self, site: Site) -> Result:
        y, unit = OPS[site.place.op].truth(site)
        return (y if unit is None else y + 0.5 * unit * self.noise.standard_normal(y.shape)), None


def _tap(config: pb.ModelConfig, name: str, step: int, value: Array, names: set[str]) -> Tensor:
    known = place(name, config.num_hidden_layers)
    assert known is not None, name
    item = tensor(name, stored(value), step=step, axes=known.axes, op=known.op)
    if not name.startswith("input."):
        item.info.inputs[:] = known.inputs_in(names, config)
    return item


def stored(array: Array) -> Array:
    """Numbers in float32, rounded once."""
    return np.ascontiguousarray(array.astype(np.float32) if array.dtype.kind == "f" else array)


def _tables(case: pb.Case, inputs: Mapping[str, Array]) -> dict[Key, Array]:
    """Positions, frequencies, cos and sin of every step, as Hugging Face has them: the angle is a float32 product."""
    config, tables = spec_config(case.config), dict[Key, Array]()
    inv_freq = ops.inv_freq.forward(config.head_dim, config.rope_theta, config.rope_scaling).astype(np.float32)

    def add(prefix: str, step: int, positions: Array) -> None:
        angles = positions.astype(np.float32)[..., None] * inv_freq
        both = np.concatenate([angles, angles], axis=-1).astype(np.float64)
        tables[f"{prefix}position_ids", step] = positions
        if "encoder_" not in prefix:
            tables[f"{prefix}inv_freq", step] = inv_freq
        tables[f"{prefix}cos", step] = (np.cos(both) * config.attention_factor).astype(np.float32)
        tables[f"{prefix}sin", step] = (np.sin(both) * config.attention_factor).astype(np.float32)

    if (source := inputs.get("input.encoder_position_ids")) is not None:
        add("encoder.", 0, source)
    if (target := inputs.get("input.decoder_position_ids")) is None:
        return tables
    start = 0
    for step, length in enumerate(case.steps):
        add("decoder.", step, target[:, start : start + length])
        start += length
    if source is not None and config.rotate_encoder_keys:
        add("decoder.encoder_", 0, source)
    return tables


def write_op(case: pb.Case, inputs: Sequence[Tensor], seed: int, folder: Path) -> None:
    """A case of one op alone with its golden in `folder`.

    As in whole runs, eight more are measured beside plain float32: on inputs and weights that are off by a rounding.
    """
    arrays = {item.info.name: item.array for item in inputs}
    numbers = {attribute.key: attribute.value for attribute in case.attributes}

    def op(arrays: Mapping[str, Array], arithmetic: Arithmetic) -> Mapping[str, Array]:
        return specified(case.op, arrays, numbers, arithmetic)

    draw = np.random.Generator(np.random.SFC64(zlib.crc32(case.name.encode())))
    truth, sequential = op(arrays, FLOAT64), op(arrays, SEQUENTIAL_FLOAT32)
    noisy = [op({name: _rounded(array, draw) for name, array in arrays.items()}, FLOAT64) for _ in range(_DRAWS)]
    outputs = []
    for name, exact in truth.items():
        array, axes = stored(exact), OP_TABLE[case.op].tensors[name].recorded_axes
        item = tensor(name, array, axes=axes, op=case.op)
        item.info.inputs.extend(arrays)
        if case.op not in EXACT:
            judged = np.ones(exact.shape, bool)
            floor = floor_of(exact, judged, axes, pb.F32, array, sequential[name])
            every = np.concatenate([run[name] for run in noisy])
            drawn = error(every, np.concatenate([exact] * _DRAWS), np.ones(every.shape, bool), axes)
            item.info.floor.CopyFrom(larger([floor, drawn]))
        outputs.append(item)
    names = [item.info.name for item in (*inputs, *outputs)]
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER, materialised=names)
    folder.mkdir(parents=True, exist_ok=True)
    write(
        folder / GOLDEN,
        Recording(case, plain_provenance(SPECIFICATION, threads=1, seed=seed), run, [*inputs, *outputs]),
    )


def _rounded(array: Array, draw: np.random.Generator) -> Array:
    """The numbers, each off by about half a unit in its last place."""
    return array * (1 + draw.standard_normal(array.shape) * 2.0**-24) if array.dtype.kind == "f" else array
