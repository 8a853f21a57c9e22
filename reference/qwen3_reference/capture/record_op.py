"""From a case of the op tier to a golden file, with floors as in whole runs: HF's error and sequential float32's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from qwen3_golden import Array, Recording, Tensor, pb, tensor, to_float32, write
from qwen3_golden.dtypes import ARITHMETIC
from qwen3_golden.op_table import OP_TABLE
from qwen3_reference.cases.op_case import OpCase
from qwen3_reference.cases.op_specs import EXACT, rope_numbers, specified
from qwen3_reference.floors.arithmetics import floor_of, frequency_floor
from qwen3_reference.provenance import provenance
from qwen3_reference.torch_tensors import DTYPES, to_numpy
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32

_SEED = 7001


def _tensor(name: str, value: torch.Tensor, op: str, axes: tuple[str, ...] = ()) -> Tensor:
    array, dtype = to_numpy(value.contiguous())
    return tensor(name, array.copy(), dtype=dtype, axes=axes, op=op)


def _values(value: torch.Tensor) -> Array:
    array, dtype = to_numpy(value)
    return to_float32(array) if dtype == pb.BF16 else array


def _set_floors(case: OpCase, outputs: list[Tensor]) -> None:
    if case.op == "inv_freq":
        for item in outputs:
            item.info.floor.CopyFrom(frequency_floor(*rope_numbers(case.attributes)))
        return
    if case.op in EXACT:
        return
    operands = {name: _values(value) for name, value in case.operands_by_name.items()}
    truth, sequential = (
        specified(case.op, operands, case.attributes, arithmetic) for arithmetic in (FLOAT64, SEQUENTIAL_FLOAT32)
    )
    for item in outputs:
        exact, axes = truth[item.info.name], tuple(item.info.axes)
        judged = np.ones(exact.shape, bool) if case.judged is None else case.judged
        runs = (item.values(), *([sequential[item.info.name]] if item.info.dtype == pb.F32 else ()))
        item.info.floor.CopyFrom(floor_of(exact, judged, axes, item.info.dtype, *runs))


def record_op(case: OpCase, path: Path) -> None:
    """Write one op's recording to `path`."""
    inputs = [_tensor(name, value, name.partition(".")[0]) for name, value in case.operands_by_name.items()]
    tables, rows = case.op == "rope_table", OP_TABLE[case.op].tensors
    outputs = [
        _tensor(name, value, name.partition(".")[2] if tables else case.op, rows[name].recorded_axes)
        for name, value in case.outputs.items()
    ]
    for item in outputs:
        item.info.inputs.extend(case.operands_by_name)
    _set_floors(case, outputs)
    message = pb.Case(
        name=f"op/{case.name}",
        tier=pb.TIER_OP,
        mode=pb.OP,
        op=case.op,
        attributes=[pb.Attribute(key=key, value=value) for key, value in sorted(case.attributes.items())],
        exposes=case.exposes,
        description=case.description,
    )
    dtype = next((value.dtype for value in case.outputs.values() if value.is_floating_point()), torch.float32)
    run = pb.Run(
        arithmetic=ARITHMETIC[DTYPES[dtype]],
        backend=pb.EAGER,
        materialised=[item.info.name for item in (*inputs, *outputs)],
    )
    write(path, Recording(message, provenance("qwen3_reference", _SEED), run, [*inputs, *outputs]))
