"""From a request to a golden file: run Hugging Face, check what was recorded, measure the floors, write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from qwen3_golden import ParityError, Recording, Tensor, Writer, minor_of, pb, tensor
from qwen3_golden.dtypes import ARITHMETIC
from qwen3_reference.capture.generation import FreeRun, chosen
from qwen3_reference.capture.models import Reference
from qwen3_reference.capture.recorder import Recorder, recorded, records
from qwen3_reference.capture.resumed_layers import resumed
from qwen3_reference.capture.run import Inputs, StepSink, as_they_are, generate_greedy, run_reference
from qwen3_reference.capture.softmax_check import check_softmax
from qwen3_reference.capture.training import train_reference
from qwen3_reference.capture.work_folder import work_folder
from qwen3_reference.checkpoints.weights import Weights, parameters
from qwen3_reference.floors.measure import Floors, measure, passes
from qwen3_reference.floors.resume import Pass
from qwen3_reference.provenance import provenance


def silent(_stage: str) -> None:
    """The ordinary `progress`: nobody listens."""


def uncounted(_done: int, _total: int) -> None:
    """The ordinary `layers`: nobody counts."""


def identity(sink: StepSink) -> StepSink:
    """The `around` of a run in one process: taps are written as they come."""
    return sink


@dataclass(frozen=True)
class Way:
    """How a request is run, whatever it asks: none of it changes a bit of the golden.

    `progress` is told each stage in words, `layers` how many layers are done and how many there are in all. `around`
    wraps the sink of the taps, for models that are spread over processes: of these one alone `writes`, and none can
    `resume` an interrupted run, since all must compute.
    """

    progress: Callable[[str], None] = silent
    layers: Callable[[int, int], None] = uncounted
    around: Callable[[StepSink], StepSink] = identity
    writes: bool = True
    resume: bool = True


PLAIN = Way()
"""In one process, without a word."""


@dataclass(frozen=True)
class Request:
    """What is to be recorded: inputs by name, the case, the weights; `models` loads HF's, when they are needed.

    `free` is the run that chose the tokens of a case with `generation`.
    """

    inputs: Inputs
    message: pb.Case
    weights: Weights
    models: Callable[[], Reference]
    seed: int = 0
    free: FreeRun | None = None

    def layers(self) -> int:
        """How many layers run in a pass, over all steps."""
        stacks = len(self.message.steps) + any(checkpoint.role == "encoder" for checkpoint in self.message.checkpoint)
        return stacks * self.message.config.num_hidden_layers


def _run(request: Request, run: Pass, way: Way) -> None:
    """Hugging Face's pass; nothing of it is computed again that `run` has."""
    if run.complete:
        return
    reference, message = request.models(), request.message
    recorder = Recorder(run, message, way.progress)
    for name, array in request.inputs.items():
        recorder.add(0, name, array)
    if message.HasField("training"):
        train_reference(reference, request.inputs, way.around(recorder.add), partial(records, message))
        run.end()
        return
    layers = partial(resumed, run) if way.resume else as_they_are
    sink = way.around(recorder.add)
    if request.free is not None:
        sink = chosen(reference.decoder, request.free, message, sink)
    run_reference(reference, request.inputs, message.steps, sink, partial(records, message), layers)
    if request.free is not None:
        recorder.chosen(request.free.generated, request.free.margin)
    elif message.max_new_tokens:
        way.progress("generation")
        recorder.generated(*generate_greedy(reference, request.inputs, message.steps[0], message.max_new_tokens))
    run.end()


def _accompany(request: Request, way: Way) -> None:
    """What a process does that shares the model of another one, which writes."""

    def nothing(_step: int, _name: str, _value: object) -> None:
        pass

    reference, message = request.models(), request.message
    run_reference(reference, request.inputs, message.steps, way.around(nothing), partial(records, message))
    if message.max_new_tokens:
        generate_greedy(reference, request.inputs, message.steps[0], message.max_new_tokens)


def with_floors(item: Tensor, floors: Floors) -> Tensor:
    """The tensor, given the floors that belong to it."""
    if item.key in floors.floor:
        item.info.floor.CopyFrom(floors.floor[item.key])
    if item.key in floors.own_angles:
        item.info.own_angles_floor.CopyFrom(floors.own_angles[item.key])
    return item


def _write(recording: Recording, held: Sequence[pb.Parameter], folder: Path, path: Path) -> None:
    """The whole golden, made in `folder`, moved to its name."""
    temporary = folder / "golden.pb"
    with Writer(temporary, schema_minor=minor_of(recording.case)) as writer:
        for item in recording:
            writer.add(item)
        writer.finish(recording.case, recording.provenance, recording.run, held)
    try:
        temporary.replace(path)
    except OSError as error:
        raise ParityError(
            path,
            "the golden cannot be given its name",
            expected="a name for a file",
            got=error.strerror or error,
            next_step="choose another name",
        ) from None


def make_golden(request: Request, path: Path, way: Way, *, floors: bool) -> None:
    """Run, check what was recorded, measure, write `path`; what is between lives in a folder beside it."""
    if not way.writes:
        _accompany(request, way)
        return
    message, weights, layers = request.message, request.weights, request.layers()
    origin = provenance("qwen3_reference", request.seed)
    tensors = [tensor(name, array) for name, array in request.inputs.items()]
    asked = Recording(message, origin, pb.Run(arithmetic=ARITHMETIC[weights.dtype], backend=pb.EAGER), tensors)
    total = layers * (1 + passes(weights.dtype) if floors else 1)

    def advance(before: int, done: int) -> None:
        way.layers(before + done, total)

    with work_folder(path, asked, resume=way.resume) as folder:
        run = Pass(folder, "run", asked, partial(advance, 0))
        if run.finished or run.complete:
            way.progress(f"going on where it was interrupted: {run.finished} of {layers} layers are recorded")
        with run:
            _run(request, run, way)
        recording, tables = recorded(run, message, origin)
        way.progress("digests of the parameters")
        held = [item for item in parameters(weights) if message.mode != pb.BLOCK or ".layers.0." in item.name]
        check_softmax(recording)
        if floors:
            measured = measure(recording, weights, tables, folder, way.progress, partial(advance, layers))
            recording = replace(recording, tensors=[with_floors(item, measured) for item in recording])
        _write(recording, held, folder, path)
