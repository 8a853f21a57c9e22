"""The NumPy port as a process: a request on standard input, its answer on standard output, nothing read from the disk.

qwen3-parity conformance --level causal -- python examples/numpy_process.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy_port import Array, factory
from safetensors.numpy import save_file

from qwen3_golden import Recording, pattern_of, pb, read, selected, write
from qwen3_golden.writer import tensor

NAMES = (("decoder.", "model."), (".merged_attn.", ".self_attn."))
"""From canonical names to Hugging Face's, which the port loads."""


def lacking(case: pb.Case) -> str:
    """What a case needs and the port does not have; empty: it has everything."""
    if case.mode not in (pb.CAUSAL, pb.BLOCK) or case.checkpoint[0].role != "decoder":
        return pb.Mode.Name(case.mode)
    return "training" if case.HasField("training") else ""


def computed(golden: Recording, folder: Path) -> Recording:
    """A case's recording, from its inputs and weights alone."""
    weights, inputs = dict[str, Array](), dict[str, Array]()
    tables: dict[str, list[Array]] = {}
    for item in golden:
        name = item.info.name
        if name.startswith("parameter."):
            for ours, theirs in NAMES:
                name = name.replace(ours, theirs)
            weights[name.removeprefix("parameter.")] = np.ascontiguousarray(item.values())
        elif name.startswith("input."):
            inputs[name] = item.array
        else:
            tables.setdefault(name, []).append(item.values())
    save_file(weights, folder / "model.safetensors")
    taps = [item for item in golden if item.info.name.startswith("input.")]

    def tap(name: str, step: int, value: Array) -> None:
        taps.append(tensor(name, np.ascontiguousarray(value), step=step))

    run = factory(golden.case, {"decoder": folder})
    joined = {name: np.concatenate(parts, axis=1) for name, parts in tables.items()}

    def wanted(name: str) -> bool:
        return pattern_of(name) in golden.run.materialised and selected(name, golden.case.taps)

    run(golden.case, inputs | joined, tap, wanted)
    said: pb.Run = run.run  # type: ignore[attr-defined]
    said.materialised[:] = golden.run.materialised
    return Recording(golden.case, pb.Provenance(producer="numpy_port"), said, taps)


def answer(request: pb.ConformanceRequest) -> pb.ConformanceAnswer:
    """What the port makes of a request; an error of its own is its answer, not its end."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "recording.pb"
        file.write_bytes(request.recording)
        golden = read(file)
        try:
            if lacks := lacking(golden.case):
                return pb.ConformanceAnswer(id=request.id, unsupported=lacks)
            write(file, computed(golden, Path(name)))
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
