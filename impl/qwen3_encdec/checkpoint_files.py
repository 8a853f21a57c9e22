"""Reading a checkpoint directory: its `config.json` and its safetensors, each failure one `ValueError`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or `ValueError` saying which file is missing or broken and where."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
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
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: not a complete safetensors file ({error}); download it again") from error


def weight_files(directory: Path) -> dict[str, Path]:
    """Which file holds which tensor, from the files' own headers.

    `ValueError` when there is no safetensors file, a tensor is stored twice, or the index and the shards disagree.
    """
    if (directory / _SINGLE).is_file():
        with open_safetensors(directory / _SINGLE) as file:
            return dict.fromkeys(file.keys(), directory / _SINGLE)
    if not (directory / _INDEX).is_file():
        raise ValueError(
            f"{directory}: expected {_SINGLE} or {_INDEX}, found neither; convert the weights to safetensors"
        )
    index = read_json(directory / _INDEX).get("weight_map")
    if not isinstance(index, dict) or not all(isinstance(shard, str) for shard in index.values()):
        raise ValueError(f"{directory / _INDEX}: expected a weight_map of tensor names to file names")
    found: dict[str, Path] = {}
    for shard in sorted(set(index.values())):
        if Path(shard).name != shard:
            raise ValueError(f"{directory / _INDEX}: shard {shard!r} is not a plain file name")
        with open_safetensors(directory / shard) as file:
            for name in file.keys():  # noqa: SIM118  # the handle is no mapping
                if name in found:
                    raise ValueError(f"{name} is stored twice, in {found[name]} and {directory / shard}")
                found[name] = directory / shard
    wrong = [name for name in sorted(index.keys() | found.keys()) if found.get(name, Path()).name != index.get(name)]
    if wrong:
        raise ValueError(f"{directory / _INDEX}: the index and the shards disagree on {', '.join(wrong)}")
    return found


def read_tensors(files: dict[str, Path]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor with its name, file by file."""
    for path in dict.fromkeys(files.values()):
        with open_safetensors(path) as file:
            for name in (name for name, holder in files.items() if holder == path):
                yield name, file.get_tensor(name)
