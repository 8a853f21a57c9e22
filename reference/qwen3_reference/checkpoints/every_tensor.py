"""The tensors of a checkpoint of any network, of any dtype, as they are stored."""

from __future__ import annotations

from pathlib import Path

from qwen3_golden import is_exported, pb
from qwen3_reference.checkpoints.safetensors_header import DTYPES, broken
from qwen3_reference.checkpoints.stored import Stored, read_directory, read_safetensors, weight_files

_NONE = pb.DTYPE_UNSPECIFIED
_EVERY = {
    **DTYPES,
    "I64": (pb.I64, "<i8"),
    "I32": (pb.I32, "<i4"),
    "U8": (pb.U8, "u1"),
    "BOOL": (pb.BOOL, "?"),
    **{name: (_NONE, numpy) for name, numpy in (("I16", "<i2"), ("I8", "i1"), ("U16", "<u2"), ("U32", "<u4"))},
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0"), (_NONE, "u1")),
}
"""Those without a place in the schema are no parameters of a model that runs in floats; they may stand beside them."""


def every_tensor(directory: Path) -> dict[str, Stored]:
    """Every tensor of a Hugging Face directory, or an exported one, by its name, mapped into memory.

    Raises `ParityError` for files that are missing or damaged, and for a tensor in two files.
    """
    if is_exported(directory):
        return read_directory(directory)
    tensors = dict[str, Stored]()
    for path in weight_files(directory):
        for name, tensor in read_safetensors(path, _EVERY).items():
            if name in tensors:
                got = f"also in {tensors[name].file}"
                raise broken(path, f"{name} is stored twice", "one file for each tensor", got)
            tensors[name] = tensor
    return tensors
