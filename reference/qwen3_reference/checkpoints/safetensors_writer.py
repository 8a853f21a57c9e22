"""Writing safetensors files block by block: tensors of any size in the memory of a few blocks."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import Any

from qwen3_golden import ParityError

Shapes = Mapping[str, tuple[int, ...]]
Block = Callable[[], bytes]
"""Makes the next bytes of a tensor, on any thread."""
SIZES = {"F32": 4, "BF16": 2, "F16": 2}
"""safetensors' dtypes that are written, and the bytes of an element."""
_WORKERS = 2


def divided(shapes: Shapes, count: int) -> dict[str, list[str]]:
    """File name -> its tensors, `count` files of about one size in the given order; `ParityError` for too many."""
    if not 1 <= count <= len(shapes):
        raise ParityError(
            "shards",
            "every shard needs a tensor",
            expected=f"1 to {len(shapes)}",
            got=count,
            next_step="choose another number of shards",
        )
    names, left = list(shapes), sum(map(prod, shapes.values()))
    files = {}
    for part in range(1, count + 1):
        others = count - part
        members, size = [names.pop(0)], 0
        size = prod(shapes[members[0]])
        while len(names) > others and size + prod(shapes[names[0]]) / 2 <= left / (others + 1):
            size += prod(shapes[names[0]])
            members.append(names.pop(0))
        left -= size
        files[f"model-{part:05}-of-{count:05}.safetensors" if count > 1 else "model.safetensors"] = members
    return files


def header(shapes: Shapes, names: Iterable[str], dtype: str) -> bytes:
    """The head of a file with these tensors in this order: 8 bytes of size, JSON padded to a multiple of 8."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        begin, end = end, end + prod(shapes[name]) * SIZES[dtype]
        entries[name] = {"dtype": dtype, "shape": list(shapes[name]), "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _ahead(pool: ThreadPoolExecutor, blocks: Iterable[Block]) -> Iterator[bytes]:
    """The blocks' bytes in order, the next few of them in the making."""
    running: deque[Future[bytes]] = deque()
    for block in blocks:
        running.append(pool.submit(block))
        if len(running) > 2 * _WORKERS:
            yield running.popleft().result()
    while running:
        yield running.popleft().result()


def write_shards(
    directory: Path, shapes: Shapes, dtype: str, count: int, blocks: Callable[[str], Iterable[Block]]
) -> None:
    """Write `count` files into `directory`, with an index if there are several; `dtype` is safetensors' ("BF16").

    `blocks(name)` gives a tensor's bytes, row-major and little-endian, piece by piece. Raises `OSError` when the disk
    is full and `ParityError` when a tensor has too few or too many bytes: what is written by then is left behind.
    """
    files = divided(shapes, count)
    with ThreadPoolExecutor(_WORKERS) as pool:
        for file, names in files.items():
            with (directory / file).open("wb") as out:
                out.write(header(shapes, names, dtype))
                for name in names:
                    begin = out.tell()
                    for content in _ahead(pool, blocks(name)):
                        out.write(content)
                    _check_size(name, prod(shapes[name]) * SIZES[dtype], out.tell() - begin)
    if count > 1:
        write_index(directory, files, sum(map(prod, shapes.values())) * SIZES[dtype])


def write_index(directory: Path, files: Mapping[str, Iterable[str]], size: int) -> None:
    """The index of several files: which tensors each has, and the bytes of all."""
    index = {
        "metadata": {"total_size": size},
        "weight_map": {name: file for file, names in files.items() for name in names},
    }
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    (directory / "model.safetensors.index.json").write_text(text, encoding="utf-8")


def _check_size(name: str, expected: int, got: int) -> None:
    if got != expected:
        raise ParityError(
            name,
            "the tensor's blocks do not make up its shape",
            expected=f"{expected} bytes",
            got=f"{got} bytes",
            next_step="give every element once",
            fault="harness bug",
        )
