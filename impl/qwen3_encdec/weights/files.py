"""Reading a checkpoint directory: its `config.json` and its safetensors, each failure one `ValueError`."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from qwen3_encdec.regular_file import open_inside, read_at_most

from .strict_json import parse

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
MAX_JSON_BYTES = 1 << 26
_FILES = ("*.json", "*.safetensors", "merges.txt", "*.jinja")
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
"""What weights may be stored in: safetensors' name of a dtype and torch's."""


@dataclass(frozen=True)
class Stored:
    """Where a tensor is, and what the header of its file says of it."""

    file: Path
    shape: tuple[int, ...]
    dtype: str
    """In safetensors' spelling, "F32"."""


def checkpoint_directory(name: str | Path, files: Sequence[str] = _FILES) -> Path:
    """The directory of a local checkpoint, or of a hub id after fetching `files`: config, weights and tokenizer.

    `ValueError` when it is neither.
    """
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(str(name), allow_patterns=list(files)))
    except (OSError, HFValidationError, ValueError) as error:
        raise ValueError(
            f"{name}: neither a directory nor a hub id that can be fetched ({str(error).splitlines()[0]}); expected a "
            f"Hugging Face directory with config.json and {_SINGLE} or {_INDEX}; check the path, or download the "
            "checkpoint first where there is a network"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or `ValueError` saying which file is missing or broken and where, or which key it has twice."""

    def twice(name: str, _: object) -> ValueError:
        return ValueError(f"a key stands twice in one object, {name}; remove the wrong one")

    try:
        with open_inside(path) as file:
            content = parse(read_at_most(file, MAX_JSON_BYTES).decode("utf-8"), twice)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path}: cannot be read as JSON ({error}); download or export the checkpoint again"
        ) from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(content).__name__}")
    return content


@contextmanager
def open_safetensors(path: Path) -> Iterator[Any]:
    """An open safetensors file; `ValueError` when it is missing, truncated or not one."""
    try:
        open_inside(path).close()
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: not a complete safetensors file ({error}); download it again") from error


def _header(path: Path) -> list[tuple[str, Stored]]:
    """The entries of a file's header in its order; a name may stand there twice."""
    with open_safetensors(path):  # sizes and offsets are checked here; of two equal names it keeps one
        pass
    with path.open("rb") as file:
        content = file.read(int.from_bytes(file.read(8), "little"))
    entries: list[tuple[str, Any]] = json.loads(content, object_pairs_hook=list)
    fields = [(name, dict(entry)) for name, entry in entries if name != "__metadata__"]
    return [(name, Stored(path, tuple(entry["shape"]), entry["dtype"])) for name, entry in fields]


def stored_tensors(directory: Path) -> dict[str, Stored]:
    """Every tensor of a checkpoint by its name, from the headers of its files; no values are read.

    `model.safetensors` is read where there is one, otherwise the shards that the index names. `ValueError` when there
    is neither, a shard is missing or broken, and one with every name that is stored twice or in another shard than the
    index says.
    """
    if (directory / _SINGLE).is_file():
        index, files = None, [_SINGLE]
    else:
        index = _weight_map(directory)
        files = sorted(set(index.values()))
    tensors: dict[str, Stored] = {}
    problems: list[str] = []
    for name, stored in (entry for file in files for entry in _header(directory / file)):
        if name in tensors:
            problems.append(f"duplicated: {name} is stored twice, in {tensors[name].file} and {stored.file}")
        tensors[name] = stored
    if index is not None:
        wrong = [
            name
            for name in sorted(index.keys() | tensors.keys())
            if (tensors[name].file.name if name in tensors else None) != index.get(name)
        ]
        if wrong:
            problems.append(f"{directory / _INDEX}: the index and the shards disagree on {', '.join(wrong)}")
    if problems:
        raise ValueError(
            "the checkpoint's files do not fit one another:\n  "
            + "\n  ".join(problems)
            + "\nnext: download the checkpoint again"
        )
    return tensors


def _weight_map(directory: Path) -> dict[str, str]:
    path = directory / _INDEX
    if not path.is_file():
        raise ValueError(
            f"{directory}: expected {_SINGLE} or {_INDEX}, found neither; convert the weights to safetensors"
        )
    index = read_json(path).get("weight_map")
    if not isinstance(index, dict) or not all(isinstance(shard, str) for shard in index.values()):
        raise ValueError(f"{path}: expected a weight_map of tensor names to file names")
    shards = sorted(set(index.values()))
    if outside := [shard for shard in shards if Path(shard).name != shard]:
        raise ValueError(f"{path}: shard {outside[0]!r} is not a plain file name")
    if absent := [str(directory / shard) for shard in shards if not (directory / shard).is_file()]:
        raise ValueError(
            f"{path}: the index points to files that do not exist: {', '.join(absent)}; download the checkpoint again"
        )
    return index


def read_tensors(stored: Mapping[str, Stored]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor with its name, file by file, each a view of the mapped file."""
    for path in dict.fromkeys(entry.file for entry in stored.values()):
        with open_safetensors(path) as file:
            for name in (name for name, entry in stored.items() if entry.file == path):
                yield name, file.get_tensor(name)


@contextmanager
def tensors_by_name(stored: Mapping[str, Stored]) -> Iterator[Callable[[str], torch.Tensor]]:
    """A function from a name to its tensor, a view of the mapped file; the files stay open inside the `with`."""
    with ExitStack() as stack:
        files = {
            path: stack.enter_context(open_safetensors(path)) for path in {entry.file for entry in stored.values()}
        }
        yield lambda name: files[stored[name].file].get_tensor(name)
