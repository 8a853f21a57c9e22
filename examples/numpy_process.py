"""The NumPy port as a process: a request on standard input, its answer on standard output, nothing read from the disk.

qwen3-parity conformance --level ops --level causal -- python examples/numpy_process.py
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy_port import Array, factory, operation
from safetensors.numpy import save_file

from qwen3_golden import (
    ParityError,
    Recording,
    last_rows,
    pattern_of,
    pb,
    place,
    read,
    selected,
    to_bfloat16,
    to_float32,
    write,
)
from qwen3_golden.writer import tensor

NETWORKS = (pb.ENCODER, pb.CAUSAL, pb.ENCODER_DECODER, pb.BLOCK)


def lacking(case: pb.Case) -> str:
    """What a case needs and the port does not have; empty: it has everything."""
    if case.mode not in (*NETWORKS, pb.OP, pb.PLUMBING):
        return pb.Mode.Name(case.mode)
    return "training" if case.HasField("training") else ""


def widened(value: Array) -> Array:
    """Half precision as float32, whatever else as it is."""
    return value.astype(np.float32) if value.dtype == np.float16 else value


def refused(operands: Mapping[str, Array], folder: Path) -> dict[str, Array]:
    """The op `read`: of each file, by its bytes, whether the port's reader refuses it."""
    outputs = {}
    for name, content in operands.items():
        file = folder / "file.pb"
        file.write_bytes(content.tobytes())
        try:
            read(file, digests=True)
            outputs[name] = np.array(False)
        except ParityError:
            outputs[name] = np.array(True)
    return outputs


def operated(golden: Recording, folder: Path) -> Recording:
    """An op's recording: what is given, copied, and the outputs."""
    given = [item for item in golden if not item.info.name.startswith("output.")]
    operands = {item.info.name.partition(".")[2]: widened(item.values()) for item in given}
    numbers = {one.key: one.value for one in golden.case.attributes}
    op = golden.case.op
    outputs = refused(operands, folder) if op == "read" else operation(op, numbers, operands)
    taps = [*given, *(tensor(f"output.{name}", np.asarray(value, order="C")) for name, value in outputs.items())]
    return Recording(golden.case, pb.Provenance(producer="numpy_port"), said(golden), taps)


def said(golden: Recording) -> pb.Run:
    """Float32, and every tap that was asked for."""
    return pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=golden.run.materialised)


def checkpoints(golden: Recording, folder: Path) -> dict[str, Path]:
    """The request's weights under Hugging Face's names, a directory a stack; those of a bfloat16 case rounded."""
    weights: dict[str, dict[str, Array]] = {one.role: {} for one in golden.case.checkpoint}
    for item in golden:
        stack, _, name = item.info.name.removeprefix("parameter.").partition(".")
        if not item.info.name.startswith("parameter."):
            continue
        value = np.ascontiguousarray(item.values())
        if golden.run.arithmetic == pb.ARITHMETIC_BF16:
            value = to_float32(to_bfloat16(value))
        if stack == "lm_head":
            weights["decoder"][f"lm_head.{name}"] = value
        else:
            weights[stack]["model." + name.replace(".merged_attn.", ".self_attn.")] = value
    for stack, named in weights.items():
        (folder / stack).mkdir()
        save_file(named, folder / stack / "model.safetensors")
    return {stack: folder / stack for stack in weights}


def computed(golden: Recording, folder: Path) -> Recording:
    """A network's recording, from its inputs and weights alone."""
    taps = [item for item in golden if item.info.name.startswith("input.")]
    inputs = {item.info.name: item.array for item in taps}
    tables: dict[str, list[Array]] = {}
    for item in golden:
        if not item.info.name.startswith(("input.", "parameter.")):
            tables.setdefault(item.info.name, []).append(item.values())
    joined = {name: np.concatenate(parts, axis=1) for name, parts in tables.items()}

    def tap(name: str, step: int, value: Array) -> None:
        if spot := place(name, golden.case.config.num_hidden_layers):
            value = last_rows(value, spot, golden.case.rows)
        taps.append(tensor(name, np.ascontiguousarray(value), step=step))

    def records(name: str) -> bool:
        return pattern_of(name) in golden.run.materialised and selected(name, golden.case.taps)

    run = factory(golden.case, checkpoints(golden, folder))
    run(golden.case, inputs | joined, tap, records)
    turned: pb.Run = run.run  # type: ignore[attr-defined]
    turned.materialised[:] = golden.run.materialised
    return Recording(golden.case, pb.Provenance(producer="numpy_port"), turned, taps)


def recorded(golden: Recording, folder: Path) -> Recording:
    """The answer's recording; of plumbing what was read."""
    if golden.case.mode == pb.PLUMBING:
        return Recording(golden.case, pb.Provenance(producer="numpy_port"), golden.run, list(golden))
    return operated(golden, folder) if golden.case.mode == pb.OP else computed(golden, folder)


def answer(request: pb.ConformanceRequest) -> pb.ConformanceAnswer:
    """What the port makes of a request; an error of its own is its answer, not its end."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "recording.pb"
        file.write_bytes(request.recording)
        try:
            golden = read(file)
            if lacks := lacking(golden.case):
                return pb.ConformanceAnswer(id=request.id, unsupported=lacks)
            write(file, recorded(golden, Path(name)))
            return pb.ConformanceAnswer(id=request.id, recording=file.read_bytes())
        except Exception as error:
            return pb.ConformanceAnswer(id=request.id, error=f"{type(error).__name__}: {error}")


def main() -> None:
    """Answer requests until there are none."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while size := source.read(4):
        request = pb.ConformanceRequest.FromString(source.read(int.from_bytes(size, "little")))
        message = answer(request).SerializeToString()
        sink.write(len(message).to_bytes(4, "little") + message)
        sink.flush()


if __name__ == "__main__":
    main()
