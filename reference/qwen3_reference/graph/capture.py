"""From a transformers model and inputs to its golden: run it, export it, write taps, digests and graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from qwen3_golden import ParityError, Recording, Tensor, pb, tensor
from qwen3_golden import write as write_recording
from qwen3_golden.dtypes import ARITHMETIC
from qwen3_golden.rules import is_plain_name
from qwen3_reference.checkpoints.weights import checkpoint_message
from qwen3_reference.graph.floors import floors as floors_of
from qwen3_reference.graph.pieces import pieces_of
from qwen3_reference.graph.pooled import Around, inside
from qwen3_reference.graph.request import Inputs, completed
from qwen3_reference.graph.settings import EXPERTS, as_reference
from qwen3_reference.graph.stored import message_of
from qwen3_reference.graph.traced import Traced, arrays_of, dtype_of, traced
from qwen3_reference.provenance import provenance
from qwen3_reference.torch_tensors import DTYPES, parameter_messages, to_numpy


def capture(
    model: nn.Module,
    inputs: Inputs,
    path: str | Path,
    *,
    steps: Sequence[int] = (),
    name: str = "request",
    checkpoint: str | Path | None = None,
    floors: bool = True,
    seed: int = 0,
    label: str = "",
    about: pb.Case | None = None,
) -> None:
    """Write the golden of a transformers model on inputs to `path`: every module's output, and the graph behind them.

    `inputs` are the forward's arguments, `[batch, query]` of the whole length; `steps` how many positions each forward
    takes, all of them in one where it is empty. `checkpoint` is the folder that the weights came from, None where they
    are handed to the judge in memory, `label` what it is called, by default as the folder. `seed` is what the inputs
    were drawn from, 0: nothing. `about` is what the case says beside all this. Raises `ParityError` for a model that
    does not run or cannot be exported, and where the disk does not take the file; then there is none.
    """
    if not is_plain_name(name):
        raise ParityError(
            f"name {name!a}",
            "this cannot be the name of a case",
            expected="a file's name, without folders that lead out and without its suffix",
            got=ascii(name),
            next_step="give another name",
        )
    with as_reference(model):
        whole, lengths = completed(model, inputs, steps)
        trace, target = traced(model, whole, lengths), Path(path)
        write(model, whole, lengths, trace, target, name, checkpoint, seed, floors=floors, label=label, about=about)


def write(
    model: nn.Module,
    inputs: Inputs,
    lengths: Sequence[int],
    trace: Traced,
    path: Path,
    name: str,
    checkpoint: str | Path | None,
    seed: int,
    *,
    floors: bool,
    label: str = "",
    about: pb.Case | None = None,
) -> None:
    """Write what was traced as a golden; without `floors` the taps have none. `label` and `about` as of `capture`."""
    architecture = type(inside(model)).__name__
    more = model.says if isinstance(model, Around) else ""
    case = pb.Case(name=name, mode=pb.GRAPH, steps=lengths, description=f"{architecture}{more} by its own graph.")
    for key, value in sorted(model.attributes.items()) if isinstance(model, Around) else ():
        case.attributes.add(key=key, value=value)
    if checkpoint is not None:
        case.checkpoint.append(checkpoint_message("model", checkpoint, label or Path(checkpoint).resolve().name))
    case.MergeFrom(about or pb.Case())
    said = provenance("qwen3_reference", seed)
    said.flags.extend(
        [pb.Pair(key="experts", value=EXPERTS), pb.Pair(key="export", value=str(trace.dtype).split(".")[1])]
    )
    said.flags.sort(key=lambda pair: pair.key)
    arithmetic = ARITHMETIC[DTYPES[dtype_of(model)]]
    taps = list(dict.fromkeys(tap for tap, _ in trace.values))
    run = pb.Run(arithmetic=arithmetic, backend=pb.EAGER, materialised=taps)
    weights = dict(inside(model).named_parameters(remove_duplicate=False))
    read = {name: weights[name] for name in trace.graph.parameters}
    pieces = {} if checkpoint is None else pieces_of(read, Path(checkpoint))
    graph = message_of(trace.graph, architecture, _config(inside(model)), pieces, read)
    named = {(f"input.{name}", 0): value for name, value in inputs.items()}
    tensors = [_tensor(key, value, trace.axes[key], "input") for key, value in named.items()]
    tensors += [_tensor(key, value, trace.axes[key]) for key, value in trace.values.items()]
    golden = Recording(case, said, run, tensors, parameter_messages(weights), graph=graph)
    if floors:
        measured = floors_of(trace.graph, dict(arrays_of(model, inputs)), golden)
        for item in tensors:
            if item.key in measured:
                item.info.floor.CopyFrom(measured[item.key])
    write_recording(path, golden)


def _tensor(key: tuple[str, int], value: torch.Tensor, axes: Sequence[str], op: str = "") -> Tensor:
    array, dtype = to_numpy(value.contiguous())
    return tensor(key[0], array, step=key[1], dtype=dtype, axes=axes, op=op)


def _config(model: nn.Module) -> str:
    """The model's config.json, empty where it has none."""
    said = getattr(getattr(model, "config", None), "to_json_string", None)
    return "" if said is None else str(said())
