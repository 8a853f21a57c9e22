"""SGLang's dumps: a .pt a tensor, what it is in the file's name, as `name=l_out___layer_id=0___step=1___rank=0.pt`.

A .pt is a program for a stack machine. It is given to torch's `weights_only` loader alone, which makes tensors, numbers
and texts and calls nothing; this file is the only one that does so.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qwen3_golden import Array
from qwen3_golden.regular_file import open_inside
from qwen3_parity.recording.dumps.dump import Dumped, reading, refused
from qwen3_parity.recording.recorder import elements

_FORWARD = ("curr_step", "forward_pass_id", "forward_pass", "step")
_LEFT_OUT = ("name", "dump_index", "recompute_status", *_FORWARD)
"""Keys of a file's name that say nothing of which tensor it is; nor do those of ranks."""
_HOOKED = "non_intrusive__"
"""How the names begin that SGLang's own hooks give to the inputs and outputs of modules."""


def tags_of(path: Path) -> dict[str, str] | None:
    """The keys and values of a file's name, None for a name of another kind."""
    parts = [part.partition("=") for part in path.stem.split("___")]
    tags = {key: value for key, _, value in parts}
    return tags if "name" in tags and all(equals for _, equals, _ in parts) else None


def read_sglang(paths: Sequence[Path]) -> list[Dumped]:
    """Every tensor of the files; values that are none are left out.

    Its name is the dump's, and behind it the keys that are neither step nor rank: "l_out___layer_id=0". Raises
    `ParityError` for other files, for several ranks, and for what torch's loader refuses.
    """
    tagged = [(path, _tags(path)) for path in paths]
    ranks = sorted({tags.get("rank", "0") for _, tags in tagged})
    if len(ranks) > 1:
        rule = "it was written by several ranks, and each has a part of the tensors"
        raise refused(paths[0].parent, rule, "the files of one rank", f"ranks {', '.join(ranks[:8])}", _ONE_RANK)
    arrays = []
    for path, tags in tagged:
        if (dumped := _dumped(path, tags, _value(path))) is not None:
            arrays.append(dumped)
    return arrays


_ONE_RANK = "run it on one device, or give a folder with the files of whole tensors"


def _tags(path: Path) -> dict[str, str]:
    tags = tags_of(path)
    if tags is None:
        expected = "SGLang's names: name=…___step=…___rank=….pt"
        raise refused(path, "its name does not say which tensor it is", expected, path.name)
    return tags


def _value(path: Path) -> Any:
    """What was dumped: the file's value, or what it calls its value."""
    value = _loaded(path)
    return value["value"] if isinstance(value, Mapping) and "value" in value else value


def _loaded(path: Path) -> Any:
    """What a file holds. One that would unpack into more than it is, is not opened."""
    import torch

    with reading(path), open_inside(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise refused(path, "torch.save did not write this file", "a .pt of PyTorch 1.6 or later", error) from None
        if unpacked > size:
            raise refused(path, "its entries are larger than the file", f"at most {size} bytes", f"{unpacked} bytes")
        file.seek(0)
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever somebody's file makes of the loader
            rule = "torch's weights_only loader refuses it, and nothing else may unpack it"
            got = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
            raise refused(path, rule, 'a tensor, or {"value": a tensor}', got) from None


def _dumped(path: Path, tags: Mapping[str, str], value: Any) -> Dumped | None:
    from qwen3_reference.torch_tensors import DTYPES

    if not _is_plain(value):
        return None
    more = [f"{key}={text}" for key, text in tags.items() if key not in _LEFT_OUT and not key.endswith("rank")]
    name = tags["name"]
    if name.startswith(_HOOKED):  # such a name has the layer already
        name, more = name.removeprefix(_HOOKED), []
    forward = next((tags[key] for key in _FORWARD if key in tags), "0")
    if not forward.isdecimal() or len(forward) > 9:
        raise refused(path, "its step is no number", "step=0, step=1, …", forward)

    def load() -> Array:
        return elements(_value(path), str(path))[0]

    return Dumped("___".join([name, *more]), tuple(value.shape), DTYPES[value.dtype], load, path, int(forward))


def _is_plain(value: Any) -> bool:
    """Whether a value is a tensor of numbers that a recording can hold."""
    import torch

    from qwen3_reference.torch_tensors import DTYPES

    return isinstance(value, torch.Tensor) and value.layout == torch.strided and value.dtype in DTYPES
