"""What a recording holds, for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.json_format import MessageToDict
from rich.console import Group
from rich.table import Table
from rich.text import Text

from qwen3_golden import ParityError, Recording, Tensor, bug, pb, selected
from qwen3_golden.op_table import OP_TABLE
from qwen3_parity.checkpoints.show_weights import weights_line, weights_table
from qwen3_parity.judge.spoken import as_filed, spoken
from qwen3_parity.report import show_case
from qwen3_parity.slices.plain import shown
from qwen3_parity.slices.stored import graph_of
from qwen3_parity.text.show import texts_table


def _numbers(tensor: Tensor) -> tuple[str, str, str]:
    """Least, greatest and RMS of the finite elements, as text; dashes where there are none."""
    values = tensor.values().astype(np.float64)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "–", "–", "–"
    return f"{finite.min():.6g}", f"{finite.max():.6g}", f"{np.sqrt(np.mean(np.square(finite))):.6g}"


def _lower(name: str) -> str:
    return name.removeprefix("ARITHMETIC_").lower()


def _mistake(name: str) -> str:
    """What goes wrong in the bug of an id; empty where no table has it: a seeded bug, a user's own, no clone."""
    try:
        return bug(name).wrong
    except ParityError:
        return ""


def _head(recording: Recording) -> Text:
    case, run, origin = recording.case, recording.run, recording.provenance
    config = case.config
    shape = (
        f"{config.model_type}: {config.num_hidden_layers} layers, hidden {config.hidden_size}, "
        f"{config.num_attention_heads} heads over {config.num_key_value_heads} of {config.head_dim}, "
        f"vocabulary {config.vocab_size}"
    )
    how = f"{_lower(pb.Arithmetic.Name(run.arithmetic))}, {_lower(pb.Backend.Name(run.backend))}, "
    how = "" if case.mode in (pb.TOKENIZATION, pb.WEIGHTS) else how
    lines = [
        f"{case.name}  ({pb.Mode.Name(case.mode).lower()})  {case.description}",
        shape if config.model_type else "",
        "steps: " + " ".join(map(str, case.steps)) if case.steps else "",
        weights_line(recording.weights) if case.mode == pb.WEIGHTS else "",
        _graph_line(recording),
        f"{how}by {origin.producer}",
        ", ".join(f"{pair.key} {pair.value}" for pair in origin.versions),
        f"digest {recording.digest.hex()}",
        *(() if case.mode == pb.WEIGHTS else show_case.lines(recording)),
        "exposes:" if case.exposes else "",
        *(f"  {name}  {_mistake(name)}".rstrip() for name in case.exposes),
    ]
    return Text("\n".join(line for line in lines if line))


def _graph_numbers(recording: Recording) -> dict[str, Any]:
    """The graph's architecture and sizes; empty for a recording without one. Raises `ParityError` as `graph_of`."""
    message = recording.graph
    if recording.case.mode != pb.GRAPH or not message.ByteSize():
        return {}
    graph = graph_of(message, recording.source)
    return {
        "architecture": shown(message.architecture),
        "nodes": len(graph.nodes),
        "ops": len({node.op for node in graph.nodes}),
        "lines": len(message.line),
        "stored_nodes": sum(len(block.node) for block in message.block),
        "blocks": len(message.block),
        "calls": len(message.call),
        "bytes": message.ByteSize(),
        "inputs": list(graph.inputs),
        "parameters": len(graph.parameters),
        "taps": len(graph.taps),
    }


def _graph_line(recording: Recording) -> str:
    """`_graph_numbers` in a line; empty for a recording without a graph."""
    if not (it := _graph_numbers(recording)):
        return ""
    stored = f"{it['stored_nodes']} stored in {it['blocks']} blocks, {it['calls']} calls, {it['bytes']} bytes"
    size = f"{it['nodes']} nodes of {it['ops']} ops on {it['lines']} lines ({stored})"
    of = f"of {', '.join(it['inputs'])} and {it['parameters']} parameters"
    return f"graph of {it['architecture']}: {size}, {of}; {it['taps']} taps"


def describe_bug(row: pb.Bug) -> Text:
    """What a bug is, what is right, when it shows and where it was reported."""
    reported = f"\nreported: {', '.join(row.reported)}" if row.reported else ""
    return Text(f"{row.id}\nwrong: {row.wrong}\nright: {row.right}\nvisible when: {row.visible_when}{reported}")


def bug_to_json(row: pb.Bug) -> dict[str, Any]:
    """As `describe_bug`, plain."""
    return dict(MessageToDict(row, preserving_proto_field_name=True))


def to_json(recording: Recording, taps: Sequence[str] = ()) -> dict[str, Any]:
    """As `describe`, plain dicts, lists, strings and numbers; texts or parts of a checkpoint where it holds those."""
    case, run, origin = recording.case, recording.run, recording.provenance
    messages = {"tokenization": recording.tokenization, "weights": recording.weights}
    return {
        "case": case.name,
        "mode": pb.Mode.Name(case.mode),
        "arithmetic": pb.Arithmetic.Name(run.arithmetic),
        "backend": pb.Backend.Name(run.backend),
        "producer": origin.producer,
        "versions": {pair.key: pair.value for pair in origin.versions},
        "digest": recording.digest.hex(),
        **show_case.to_json(recording),
        **({"graph": numbers} if (numbers := _graph_numbers(recording)) else {}),
        "taps": [_tap(tensor, case) for tensor in recording if selected(tensor.info.name, as_filed(taps))],
        **{
            name: MessageToDict(message, preserving_proto_field_name=True)
            for name, message in messages.items()
            if message.ByteSize()
        },
    }


def _axes(info: pb.Tensor, case: pb.Case) -> Sequence[str]:
    """A tensor's axes; of an operand of an op's case, which records none, those of the op's row."""
    row = OP_TABLE[case.op].tensors.get(info.name) if case.op in OP_TABLE else None
    return info.axes or (row.recorded_axes if row and len(row.axes) == len(info.shape) else ())


def _tap(tensor: Tensor, case: pb.Case) -> dict[str, Any]:
    info = tensor.info
    least, greatest, rms = (None if number == "–" else float(number) for number in _numbers(tensor))
    return {
        "name": info.name,
        "place": spoken(info.name, case),
        "step": info.step,
        "dtype": pb.DType.Name(info.dtype),
        "shape": list(info.shape),
        "axes": list(_axes(info, case)),
        "min": least,
        "max": greatest,
        "rms": rms,
        "floor_rms": info.floor.rms if info.HasField("floor") else None,
    }


def describe(recording: Recording, taps: Sequence[str] = ()) -> Group:
    """A head with the case and its provenance, then a row for each tensor, or stage, that a glob of `taps` selects."""
    if recording.case.mode == pb.TOKENIZATION:
        return Group(_head(recording), texts_table(recording, taps))
    if recording.case.mode == pb.WEIGHTS:
        return Group(_head(recording), weights_table(recording, taps))
    table = Table("tap", "step", "dtype", "shape", "axes", "min", "max", "rms", "floor rms", box=None)
    table.columns[0].no_wrap = True
    for tensor in recording:
        info = tensor.info
        if not selected(info.name, as_filed(taps)):
            continue
        floor = f"{info.floor.rms:.2g}" if info.HasField("floor") else "–"
        shape = "×".join(map(str, info.shape)) or "scalar"
        row = (
            spoken(info.name, recording.case),
            str(info.step),
            pb.DType.Name(info.dtype).lower(),
            shape,
            " ".join(_axes(info, recording.case)),
        )
        table.add_row(*row, *_numbers(tensor), floor)
    return Group(_head(recording), table)
