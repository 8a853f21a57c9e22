"""What a part of an exported checkpoint holds, for a person."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.table import Table

from qwen3_golden import Recording, Tensor, pb, selected
from qwen3_golden.probe import blocks


def weights_line(weights: pb.Weights) -> str:
    """Which part it is, of how much, and what files the checkpoint consists of."""
    files = f"; files: {', '.join(file.name for file in weights.file)}" if weights.file else ""
    return f"part {weights.part} of {weights.parts}; {len(weights.place)} tensors in all{files}"


def weights_table(recording: Recording, names: Sequence[str]) -> Table:
    """A row for each tensor of the part that a glob of `names` selects."""
    table = Table("tensor", "dtype", "shape", "axes", "min", "max", "rms", "probe", box=None)
    table.columns[0].no_wrap = True
    for item in recording:
        info = item.info
        if selected(info.name, names):
            shape = "×".join(map(str, info.shape))
            row = (info.name, pb.DType.Name(info.dtype).lower(), shape, " ".join(info.axes))
            table.add_row(*row, *_numbers(item), f"{info.probe:.9g}")
    return table


def _numbers(item: Tensor) -> tuple[str, str, str]:
    """Least, greatest and RMS of the finite elements, as text, some rows at a time; dashes where there are none."""
    least, greatest, squares, count = np.inf, -np.inf, 0.0, 0
    for _, part in blocks(item.array, item.info.dtype):
        finite = part[np.isfinite(part)]
        if finite.size:
            least, greatest = min(least, float(finite.min())), max(greatest, float(finite.max()))
            squares, count = squares + float(np.square(finite).sum()), count + finite.size
    return (f"{least:.6g}", f"{greatest:.6g}", f"{np.sqrt(squares / count):.6g}") if count else ("–", "–", "–")
