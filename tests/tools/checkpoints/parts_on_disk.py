"""Checkpoints written byte by byte, and parts of exported ones that are spoilt in one thing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pb, read, tensor, write
from qwen3_reference.cases.models import MODEL_CASES
from qwen3_reference.checkpoints.classic_configs import is_classic

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
MODELS = {case.checkpoint for case in MODEL_CASES}
COMMITTED = sorted(path.name for path in CHECKPOINTS.iterdir() if not is_classic(path) and path.name not in MODELS)
"""The checkpoints of Qwen networks; those of classic encoders and of other models of transformers are not exported."""
CODES = {"float64": pb.F64, "float32": pb.F32, "bfloat16": pb.BF16, "float16": pb.F16}


def safetensors(tensors: dict[str, Array], code: str, padding: bytes = b"   \n") -> bytes:
    """A file with the tensors in the order of the dictionary, and a header that nobody would write in the same way."""
    header, offset = {"__metadata__": {"format": "pt", "note": "é  "}}, 0
    for name, array in tensors.items():
        header[name] = {"shape": array.shape, "data_offsets": [offset, offset + array.nbytes], "dtype": code}  # type: ignore[dict-item]
        offset += array.nbytes
    text = json.dumps(header, indent=1, ensure_ascii=False).encode() + padding
    return len(text).to_bytes(8, "little") + text + b"".join(array.tobytes() for array in tensors.values())


def parts_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("weights-*.pb"))


def rewrite(
    path: Path,
    change: Callable[[pb.Weights, pb.Case], None] = lambda weights, case: None,
    tensors: Callable[[Tensor], Tensor | None] = lambda item: item,
) -> None:
    """Write a part again, valid in itself, with something changed: its messages in place, its tensors one by one."""
    part: Recording = read(path)
    case, weights = pb.Case(), pb.Weights()
    case.CopyFrom(part.case)
    weights.CopyFrom(part.weights)
    change(weights, case)
    kept = [new for item in part if (new := tensors(item)) is not None]
    write(path, replace(part, case=case, weights=weights, tensors=kept))


def with_array(item: Tensor, array: Array, **fields: object) -> Tensor:
    """The tensor with other elements and the same metadata, but for `fields`."""
    new = tensor(item.info.name, array, dtype=item.info.dtype, axes=item.info.axes)
    new.info.probe = item.info.probe
    for name, value in fields.items():
        setattr(new.info, name, value)
    return new
