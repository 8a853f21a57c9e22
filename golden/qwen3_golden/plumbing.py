"""The self-test recordings of the file format: `python -m qwen3_golden.plumbing DIR` writes them, the same every time.

golden/README.md lists their bytes, so that a port can check its reader and its writer without a network.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from qwen3_golden import damaged
from qwen3_golden import golden_pb2 as pb
from qwen3_golden.dtypes import NUMPY, Array
from qwen3_golden.reader import read
from qwen3_golden.recording import Recording, Tensor
from qwen3_golden.writer import tensor, write

_FOLDER = "plumbing"
_DESCRIPTIONS = {
    "dtypes": "Every dtype, in a matrix that shows the order of its elements.",
    "shapes": "Scalars, arrays without elements and many axes.",
    "specials": "NaN, infinities, -0.0, subnormal, smallest and largest numbers, bit for bit.",
    "damaged": "Files that a reader refuses, each for one rule, and files that it reads.",
    "unpadded": "The tensors of plumbing/dtypes as a stock protobuf library writes them.",
}
_MATRICES: dict[pb.DType, list[float]] = {  # two rows of three
    pb.F64: [1, 2, 3, -4, 0.1, 1e300],
    pb.F32: [1, 2, 3, -4, 0.1, 1e30],
    pb.F16: [1, 2, 3, -4, 0.1, 1e4],
    pb.BF16: [0x3F80, 0x4000, 0x4040, 0xC080, 0x3DCD, 0x714A],  # 1, 2, 3, -4, 0.1 and 1e30, rounded
    pb.I64: [1, 2, 3, -4, -(2**63), 2**63 - 1],
    pb.I32: [1, 2, 3, -4, -(2**31), 2**31 - 1],
    pb.U8: [1, 2, 3, 4, 0, 255],
    pb.BOOL: [1, 0, 0, 1, 1, 0],
}
# (total bits, explicit mantissa bits) of each floating-point dtype
_LAYOUTS = {pb.F64: (64, 52), pb.F32: (32, 23), pb.F16: (16, 10), pb.BF16: (16, 7)}


def special_bits(dtype: pb.DType) -> list[int]:
    """The bit patterns of the special values of a floating-point dtype, in the order that golden/README.md gives."""
    bits, mantissa = _LAYOUTS[dtype]
    sign, infinity, quiet, ulp = 1 << (bits - 1), ((1 << (bits - 1 - mantissa)) - 1) << mantissa, 1 << (mantissa - 1), 1
    return [
        *(0, sign),  # 0.0, -0.0
        *(infinity, sign | infinity),  # +Inf, -Inf
        *(infinity | quiet, sign | infinity | quiet),  # quiet NaN of either sign
        *(infinity | quiet | 5, infinity | ulp),  # quiet NaN with payload 5, signalling NaN
        *(ulp, sign | ulp),  # smallest subnormal of either sign
        *((1 << mantissa) - ulp, 1 << mantissa),  # largest subnormal, smallest normal
        *(infinity - ulp, sign | infinity - ulp),  # largest and lowest finite number
    ]


def _dtypes() -> Iterator[Tensor]:
    for code, values in _MATRICES.items():
        yield _tensor("matrix", np.array(values).astype(NUMPY[code]).reshape(2, 3), code, ("row", "column"))


def _shapes() -> Iterator[Tensor]:
    for code in NUMPY:
        bits = 0x3F80 if code == pb.BF16 else 1
        yield _tensor("scalar", np.array(bits, NUMPY[code]), code, ())
    yield _tensor("no_elements", np.zeros(0, "<f4"), pb.F32, ("row",))
    yield _tensor("no_columns", np.zeros((2, 0), "<f4"), pb.F32, ("row", "column"))
    yield _tensor("no_rows", np.zeros((0, 3), "<i8"), pb.I64, ("row", "column"))
    axes = ("batch", "heads", "query", "key", "head_dim")
    yield _tensor("five_axes", np.arange(24, dtype="u1").reshape(2, 1, 3, 1, 4), pb.U8, axes)
    yield _tensor("no_axis_names", np.arange(3, dtype="u1"), pb.U8, ())
    yield _tensor("step", np.arange(2, dtype="<i4"), pb.I32, ("row",))
    yield _tensor("step", np.arange(3, dtype="<i4"), pb.I32, ("row",), step=1)


def _specials() -> Iterator[Tensor]:
    for code in _LAYOUTS:
        bits = np.array(special_bits(code), dtype=f"<u{NUMPY[code].itemsize}")
        yield _tensor("specials", bits.view(NUMPY[code]), code, ("row",))


def _tensor(name: str, array: Array, dtype: pb.DType, axes: tuple[str, ...], step: int = 0) -> Tensor:
    full_name = f"plumbing.{name}.{pb.DType.Name(dtype).lower()}"
    return tensor(full_name, array, step=step, dtype=dtype, axes=axes)


def _write(folder: Path, name: str, tensors: Iterable[Tensor], op: str = "") -> Path:
    path = folder / f"{name}.pb"
    items = tuple(tensors)
    mode = pb.OP if op else pb.PLUMBING
    case = pb.Case(name=f"{_FOLDER}/{name}", tier=pb.TIER_OP, mode=mode, op=op, description=_DESCRIPTIONS[name])
    provenance = pb.Provenance(producer="qwen3_golden.plumbing")
    names = sorted({item.info.name for item in items if not item.info.name.startswith("input.")})
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=names)
    write(path, Recording(case, provenance, run, items))
    return path


def build(folder: Path) -> None:
    """Write the self-test recordings into `folder`, the bytes the same on every machine."""
    _write(folder, "dtypes", _dtypes())
    _write(folder, "shapes", _shapes())
    _write(folder, "specials", _specials())
    _write(folder, "damaged", [*damaged.inputs(), *damaged.outputs()], op=damaged.OP)
    path = _write(folder, "unpadded", _dtypes())
    message = pb.Recording.FromString(path.read_bytes())
    message.ClearField("padding")
    path.write_bytes(message.SerializeToString())
    read(path, digests=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
