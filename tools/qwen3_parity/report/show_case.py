"""What a case is made of, for whoever has to run it: its inputs, its numbers, and where file and checkpoint lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qwen3_golden import GOLDEN_ROOT, Recording, pb
from qwen3_golden.rules import is_plain_name

_GIVEN = ("input.", "parameter.")
_ROW = 16
"""Numbers of a row that are shown."""


def lines(recording: Recording) -> Iterator[str]:
    """Text: a line for the file, each checkpoint, each number of an op and each input; ids in full."""
    yield f"file {recording.source}"
    for checkpoint in recording.case.checkpoint:
        path = checkpoint_path(recording, checkpoint)
        yield f"checkpoint {checkpoint.role}: {path or f'{checkpoint.name}, which is not here: give --model'}"
    if numbers := attributes(recording):
        yield "attributes: " + ", ".join(f"{key} {value:g}" for key, value in numbers.items())
    for tensor in recording:
        info = tensor.info
        if info.name.startswith(_GIVEN):
            shape = "×".join(map(str, info.shape)) or "scalar"
            yield f"{info.name}  {pb.DType.Name(info.dtype).lower()} {shape}{_ids(tensor.array, info)}"


def to_json(recording: Recording) -> dict[str, Any]:
    """The same for scripts; the inputs are among the taps."""
    return {
        "description": recording.case.description,
        "file": recording.source,
        "checkpoints": [
            {"role": c.role, "name": c.name, "path": (path := checkpoint_path(recording, c)) and str(path)}
            for c in recording.case.checkpoint
        ],
        "attributes": attributes(recording),
        "steps": list(recording.case.steps),
        "exposes": list(recording.case.exposes),
    }


def attributes(recording: Recording) -> dict[str, float]:
    """The numbers of a case, as eps or the window."""
    return {attribute.key: attribute.value for attribute in recording.case.attributes}


def checkpoint_path(recording: Recording, checkpoint: pb.Checkpoint) -> Path | None:
    """The folder of a checkpoint: beside the golden, or a committed one; None where it is neither."""
    beside, of_texts = Path(recording.source).parent, recording.case.mode == pb.TOKENIZATION
    roots = (beside, GOLDEN_ROOT / ("tokenizers" if of_texts else "checkpoints"))
    named = [root / checkpoint.name for root in roots] if is_plain_name(checkpoint.name) else []
    folders = [*named, *[beside] * ((beside / "config.json").is_file())]
    return next((folder for folder in folders if folder.is_dir()), None)


def _ids(array: Any, info: pb.Tensor) -> str:
    """The rows of ids and masks, which are short; of other inputs the shape says enough."""
    if array.dtype.kind not in "iub" or array.ndim != 2 or array.shape[0] > _ROW:
        return ""
    more = " …" if array.shape[1] > _ROW else ""
    return "  " + "; ".join(" ".join(str(int(number)) for number in row[:_ROW]) + more for row in array)
