"""From a case of the classic encoder to its golden: run torch or Hugging Face, check, measure the floors, write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qwen3_golden import Array, Place, Recording, Writer, minor_of, pattern_of, pb, place, table, tensor
from qwen3_reference.capture.classic_bert import run_bert
from qwen3_reference.capture.classic_torch import run_torch
from qwen3_reference.capture.softmax_check import check_softmax
from qwen3_reference.cases.classic import ClassicCase, classic_inputs
from qwen3_reference.checkpoints.classic_configs import classic_config
from qwen3_reference.checkpoints.classic_weights import load_classic
from qwen3_reference.checkpoints.weights import Weights, checkpoint_message, parameters
from qwen3_reference.floors.arithmetics import floor_of, has_floor, spec_run
from qwen3_reference.floors.scope import Scope
from qwen3_reference.provenance import provenance
from qwen3_reference.torch_tensors import to_numpy
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic


def classic_run(
    config: pb.ModelConfig, weights: Mapping[str, Array], inputs: Mapping[str, Array], arithmetic: Arithmetic = FLOAT64
) -> dict[str, Array]:
    """Every tap of a case by the specification, by name."""
    taps: dict[str, Array] = {}
    spec_run(weights, Scope(config, inputs, ()), {}, lambda _, *tap: taps.__setitem__(*tap), arithmetic)
    return taps


def _known(name: str, config: pb.ModelConfig) -> Place:
    tap = place(name, config.num_hidden_layers)
    assert tap is not None, name
    return tap


def record_classic(case: ClassicCase, checkpoints: Path, path: Path) -> None:
    """Record one case from its checkpoint in `checkpoints`, with floors; raises `ParityError` for a broken one."""
    directory = checkpoints / case.checkpoint
    config, weights = classic_config(directory), load_classic(directory)
    inputs = classic_inputs(case, config)
    run = run_bert if config.classic_encoder.starts_with_hidden_states else run_torch
    taps = {name: to_numpy(value.contiguous())[0] for name, value in run(config, weights, inputs).items()}
    message = pb.Case(
        name=case.name,
        tier=pb.TIER_MODEL,
        mode=pb.CLASSIC_ENCODER,
        config=config,
        checkpoint=[checkpoint_message("encoder", directory, case.checkpoint)],
        exposes=case.exposes,
        description=case.description,
    )
    everything = {**inputs, **taps}
    items = []
    for name in everything:
        tap = _known(name, config)
        sources = tap.inputs_in(everything, config)
        items.append(tensor(name, everything[name], axes=tap.axes, op=tap.op, inputs=sources))
    delivered = {pattern_of(name) for name in everything}
    shown = [row.pattern for row in table() if row.pattern in delivered]
    done = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER, materialised=shown)
    recording = Recording(message, provenance("qwen3_reference", case.seed), done, items)
    check_softmax(recording)
    _measure(recording, weights, inputs)
    with Writer(path, schema_minor=minor_of(message)) as writer:
        for item in recording:
            writer.add(item)
        writer.finish(message, recording.provenance, done, parameters(weights))


def _measure(recording: Recording, weights: Weights, inputs: Mapping[str, Array]) -> None:
    """Give every float tap its floor: see `floors`."""
    config = recording.case.config
    scope = Scope(config, inputs, ())
    truth = classic_run(config, weights, inputs)
    plain = classic_run(config, weights, inputs, SEQUENTIAL_FLOAT32)
    for item in recording:
        name, tap = item.info.name, _known(item.info.name, config)
        if not has_floor(tap):
            continue
        floor = floor_of(truth[name], scope.judged(tap, 0), tap.axes, pb.F32, item.array, plain[name])
        item.info.floor.CopyFrom(floor)
