"""From a case of the op tier to a golden file, with floors as in whole runs: HF's error and sequential float32's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from qwen3_golden import Array, Recording, Tensor, pb, tensor, to_float32, write
from qwen3_golden.dtypes import ARITHMETIC
from qwen3_reference.cases.op_case import OpCase
from qwen3_reference.cases.op_specs import EXACT, SPECS, rope_numbers
from qwen3_reference.floors.arithmetics import error, frequency_floor, larger, least
from qwen3_reference.provenance import provenance
from qwen3_reference.torch_tensors import DTYPES, to_numpy
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32

_SEED = 7001


def _tensor(name: str, value: torch.Tensor, op: str, axes: tuple[str, ...] = ()) -> Tensor:
    array, dtype = to_numpy(value.contiguous())
    fitting = axes if len(axes) == array.ndim else ()
    return tensor(name, array.copy(), dtype=dtype, axes=fitting, op=op)


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
    operands = {name: _values(value) for name, value in case.given.items()}
    spec = SPECS[case.op]
    truth, sequential = (spec(operands, case.attributes, arithmetic) for arithmetic in (FLOAT64, SEQUENTIAL_FLOAT32))
    for item in outputs:
        exact, axes = truth[item.info.name], case.axes
        judged = np.ones(exact.shape, bool) if case.judged is None else case.judged
        floors = [error(item.values(), exact, judged, axes), least(exact, judged, axes, item.info.dtype)]
        if item.info.dtype == pb.F32:
            floors.append(error(sequential[item.info.name], exact, judged, axes))
        item.info.floor.CopyFrom(larger(floors))


def record_op(case: OpCase, path: Path) -> None:
    """Write one op's recording to `path`."""
    inputs = [_tensor(name, value, name.partition(".")[0]) for name, value in case.given.items()]
    tables = case.op == "rope_table"
    outputs = [
        _tensor(name, value, name.partition(".")[2] if tables else case.op, case.axes)
        for name, value in case.outputs.items()
    ]
    for item in outputs:
        item.info.inputs.extend(case.given)
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
