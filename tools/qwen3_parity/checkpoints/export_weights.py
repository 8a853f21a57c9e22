"""A Hugging Face checkpoint as protobuf files: recordings of mode WEIGHTS, each small enough for every library."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qwen3_golden import ParityError, Writer, minor_of, part_name, pb, tensor
from qwen3_golden.probe import probe
from qwen3_golden.regular_file import open_inside
from qwen3_golden.weight_axes import weight_axes
from qwen3_golden.whole_folder import whole_folder
from qwen3_golden.wire import MAX_FILE_BYTES
from qwen3_parity.checkpoints.export_tokenizer import export_tokenizer
from qwen3_parity.checkpoints.weight_remarks import remark
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.exported import belongs
from qwen3_reference.checkpoints.safetensors_header import SIZE_BYTES
from qwen3_reference.checkpoints.stored import Stored, weight_files
from qwen3_reference.checkpoints.weights import checkpoint_message, stored_tensors
from qwen3_reference.provenance import provenance

TOKENIZER = "tokenizer.pb"
_TENSOR_BYTES = 512  # more than a tensor's metadata, head and padding need
_RUN = pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE)


@dataclass(frozen=True)
class Exported:
    """What was written: the case of every part, the number of parts, tensors and bytes, and what is worth a look."""

    case: pb.Case
    parts: int
    tensors: int
    bytes: int
    remarks: Sequence[str]
    left_out: Sequence[str]
    """Files of the directory that are neither configuration nor weights nor tokenizer."""


def export_weights(
    directory: Path,
    out: Path,
    label: str,
    part_bytes: int = MAX_FILE_BYTES,
    progress: Callable[[str], None] = lambda name: None,
) -> Exported:
    """Write the checkpoint in `directory` to the new folder `out`; parts have at most `part_bytes`, or one tensor.

    The folder holds `tokenizer.pb` too where there is a tokenizer. Tensors are mapped, never loaded. Raises
    `ParityError` for a checkpoint that is not whole, for a tensor that fits no file, when `out` exists, and for a disk
    that is full; nothing is left behind then.
    """
    config = model_config(directory)
    stored = stored_tensors(directory)
    files, left_out = _source_files(directory)
    weights = pb.Weights(place=[pb.WeightPlace(name=name, part=1, sha256=bytes(32)) for name in sorted(stored)])
    case = pb.Case(name=f"weights/{label}", mode=pb.WEIGHTS, config=config, description="A checkpoint's tensors.")
    case.checkpoint.add(role="weights", name=label, sha256=bytes(32))
    produced = provenance("qwen3_parity")
    common = pb.Recording(provenance=produced, case=case, run=_RUN, weights=weights).ByteSize() + 1024
    order = [name for name in weight_axes(config) if name in stored]
    parts = plan(
        {name: stored[name].bits.nbytes for name in order},
        part_bytes - common,
        part_bytes - common - pb.Weights(file=files).ByteSize(),
        MAX_FILE_BYTES - common,
    )
    with whole_folder(out) as folder:
        case.checkpoint[0].CopyFrom(checkpoint_message("weights", directory, label))
        remarks, probes = [], {}
        where = {name: number for number, names in enumerate(parts, 1) for name in names}
        for place in weights.place:
            progress(f"hashing {place.name}")
            item = stored[place.name]
            place.part, place.sha256 = where[place.name], _digest(item)
            probes[place.name] = probe(item.bits, item.dtype).value
            line = remark(place.name, item.bits, item.dtype, probes[place.name])
            remarks += [line] if line else []
        for number, names in enumerate(parts, 1):
            part_weights = pb.Weights(
                part=number, parts=len(parts), place=weights.place, file=files if number == 1 else ()
            )
            progress(f"writing part {number} of {len(parts)}")
            _write(
                folder / part_name(number, len(parts)),
                {n: stored[n] for n in names},
                probes,
                case,
                produced,
                part_weights,
            )
        if (directory / "tokenizer.json").is_file() or (directory / "vocab.json").is_file():
            export_tokenizer(directory, folder / TOKENIZER)
        size = sum(path.stat().st_size for path in folder.iterdir())
    return Exported(case, len(parts), len(order), size, remarks, left_out)


def plan(sizes: Mapping[str, int], limit: int, first_limit: int, largest: int) -> list[list[str]]:
    """The tensors of each part, in order; a part holds at most `limit` bytes (the first: `first_limit`), or one tensor.

    The first part may hold none. Raises `ParityError` for a tensor of more than `largest` bytes.
    """
    parts: list[list[str]] = [[]]
    left = first_limit
    for name, size in sizes.items():
        needed = size + _TENSOR_BYTES
        if needed > largest:
            raise ParityError(
                name,
                "a tensor is larger than a file can be: the libraries of C++ and Java parse less than 2^31 bytes",
                expected=f"at most {largest - _TENSOR_BYTES:,} bytes",
                got=f"{size:,}",
                next_step="save the checkpoint in bfloat16 and export that",
            )
        if needed > left:
            parts.append([])
            left = limit
        parts[-1].append(name)
        left -= needed
    return parts


def _source_files(directory: Path) -> tuple[list[pb.SourceFile], list[str]]:
    """What it takes to make the directory again, sorted by name, and the names of the files that are left out."""
    weights = {path.name for path in weight_files(directory)}
    files, left_out = [], []
    for path in sorted(directory.iterdir()):
        is_weights = path.name in weights
        if not (belongs(path.name) and path.is_file()) or (path.suffix == ".safetensors" and not is_weights):
            left_out.append(path.name)
            continue
        with open_inside(path) as file:
            content = file.read(int.from_bytes(file.read(SIZE_BYTES), "little")) if is_weights else file.read()
        files.append(pb.SourceFile(name=path.name, **{"header" if is_weights else "content": content}))
    if lost := sorted(weights - {file.name for file in files}):
        raise ParityError(
            directory,
            "a weight file has an unusual name",
            expected="letters, digits, _ . + - and .safetensors",
            got=", ".join(lost),
            next_step="rename it, and its entries in the index",
        )
    return files, left_out


def _digest(item: Stored) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(item.bits).reshape(-1).view(np.uint8).data).digest()


def _write(
    path: Path,
    tensors: Mapping[str, Stored],
    probes: Mapping[str, float],
    case: pb.Case,
    produced: pb.Provenance,
    weights: pb.Weights,
) -> None:
    axes = weight_axes(case.config)
    with Writer(path, schema_minor=minor_of(case)) as writer:
        for name, item in tensors.items():
            recorded = tensor(name, item.bits, dtype=item.dtype, axes=axes[name])
            recorded.info.probe = probes[name]
            writer.add(recorded)
        writer.finish(case, produced, _RUN, weights=weights)
    placed = {place.name: bytes(place.sha256) for place in weights.place}
    for info in writer.infos:
        if bytes(info.sha256) != placed[info.name]:
            raise ParityError(
                tensors[info.name].file,
                f"{info.name} has changed while it was exported",
                expected="a checkpoint that stays as it is",
                got="another SHA-256 than a moment ago",
                next_step="export it again when nothing writes to it",
            )
