"""An exported checkpoint, and the files of the Hugging Face directory that it was made of, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from qwen3_golden import Recording, Tensor, pb, read_parts, refusals
from qwen3_reference.checkpoints.safetensors_header import SIZE_BYTES, Entry, read_header

_refuse = refusals("export the checkpoint again")

Buffer = bytes | memoryview
_NAMES = {
    "config.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
}
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\.(safetensors|jinja)")


def belongs(name: str) -> bool:
    """Whether a file of a Hugging Face directory is exported: configuration, weights, tokenizer; plain names only."""
    return name in _NAMES or _PLAIN.fullmatch(name) is not None


def source_files(directory: Path) -> dict[str, Iterator[Buffer]]:
    """Name -> content, in pieces, of the files that an exported checkpoint was made of.

    Raises `ParityError` for parts that do not belong together and for files that are not made of their tensors.
    """
    return files_of(read_parts(directory))


def files_of(parts: Sequence[Recording]) -> dict[str, Iterator[Buffer]]:
    """The same of parts that were read. Every tensor stands in one file; names cannot leave the directory."""
    where = parts[0].source
    tensors = {item.info.name: item for part in parts for item in part}
    contents: dict[str, Iterator[Buffer]] = {}
    owners: dict[str, str] = {}
    for file in parts[0].weights.file:
        if not belongs(file.name) or file.name in contents:
            raise _refuse(where, "a file that cannot be made again", "each of a checkpoint's files once", file.name)
        if not file.name.endswith(".safetensors"):
            contents[file.name] = iter([file.content])
            continue
        entries = read_header(f"{where}: {file.name}", file.header)
        for name, entry in entries.items():
            if name in owners:
                raise _refuse(where, f"{name} stands in two files", owners[name], file.name)
            owners[name] = file.name
            _check_entry(f"{where}: {file.name}", name, entry, tensors)
        contents[file.name] = _pieces(file.header, [tensors[name] for name in entries])
    if lost := sorted(tensors.keys() - owners.keys()):
        raise _refuse(where, "tensors stand in none of the files", f"{len(owners)} tensors", ", ".join(lost))
    return contents


def _check_entry(where: str, name: str, entry: Entry, tensors: Mapping[str, Tensor]) -> None:
    if name not in tensors:
        raise _refuse(where, f"{name} is in no part", "a tensor of this name", "none")
    info = tensors[name].info
    if (info.dtype, tuple(info.shape)) != (entry.dtype, entry.shape):
        expected, got = (f"{pb.DType.Name(layout.dtype)} {list(layout.shape)}" for layout in (entry, info))
        raise _refuse(where, f"{name} is not what the file's header says", expected, got)


def _pieces(header: bytes, tensors: Sequence[Tensor]) -> Iterator[Buffer]:
    yield len(header).to_bytes(SIZE_BYTES, "little")
    yield header
    for item in tensors:
        yield np.ascontiguousarray(item.array).reshape(-1).view(np.uint8).data


def content_of(parts: Sequence[Recording], name: str) -> bytes:
    """A text file of the Hugging Face directory; `ParityError` where the export has none."""
    for file in parts[0].weights.file:
        if file.name == name:
            return file.content
    raise _refuse(parts[0].source, f"there is no {name}", "the files of a checkpoint", f"{len(parts[0].weights.file)}")
