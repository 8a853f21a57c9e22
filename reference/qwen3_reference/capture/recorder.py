"""The taps of a run, on their way to its files and back from them as a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch

from qwen3_golden import Array, Recording, Tensor, last_rows, pattern_of, pb, place, selected, table, tensor
from qwen3_reference.floors.resume import Pass
from qwen3_reference.torch_tensors import to_numpy
from qwen3_spec.sweep import Key

_ALWAYS = ("generated_ids", "next_token_probs")
_TABLES = ("position_ids", "inv_freq", "cos", "sin")
_ASIDE = "aside."
"""Before the names of what the golden does not show: RoPE tables (floors need them even when nobody asked for them)."""
_MARGIN = f"{_ASIDE}smallest_margin"


def records(message: pb.Case, name: str) -> bool:
    """Whether a tap of the case is to be recorded, for the golden or for its floors."""
    return selected(name, message.taps) or name.endswith(_TABLES)


class Recorder:
    """Writes taps as they come."""

    def __init__(self, run: Pass, message: pb.Case, progress: Callable[[str], None]) -> None:
        self.run = run
        self.message = message
        self.progress = progress

    def add(self, step: int, name: str, value: torch.Tensor | Array) -> None:
        """Write the rows that the case keeps of a tap."""
        array, dtype = to_numpy(value)
        if name.endswith(_TABLES) and not name.startswith("input."):
            self.run.add(tensor(_ASIDE + name, array, step=step, dtype=dtype))
        if name in _ALWAYS or name.startswith("input.") or selected(name, self.message.taps):
            known = place(name, self.message.config.num_hidden_layers)
            assert known is not None, name
            array = last_rows(array, known, self.message.rows)
            self.run.add(tensor(name, array, step=step, dtype=dtype, axes=known.axes, op=known.op))
        if name.endswith(".output"):
            self.progress(f"step {step}: {name}")

    def generated(self, ids: Array, margin: float) -> None:
        """Write what greedy decoding gave."""
        self.chosen(ids, margin)

    def chosen(self, ids: Array | None, margin: float) -> None:
        """Write what a search returned; a sample returns what nobody repeats."""
        if ids is not None:
            self.add(0, "generated_ids", ids)
        self.run.add(tensor(_MARGIN, np.array(margin)))


def _with_inputs(item: Tensor, names: Iterable[str], config: pb.ModelConfig) -> Tensor:
    """The tap with what it was computed from, now that it is known what was recorded."""
    known = place(item.info.name, config.num_hidden_layers)
    if known is not None:
        item.info.inputs[:] = known.inputs_in(names, config)
    return item


def recorded(run: Pass, message: pb.Case, provenance: pb.Provenance) -> tuple[Recording, dict[Key, Array]]:
    """What a complete run wrote: the recording, mapped from its files, and the RoPE tables by name and step.

    The recording's `run` says eager attention and the patterns delivered, in the table's order; `message` is given the
    margin of what was generated.
    """
    taps, tables = [], {}
    for item in run:
        name = item.info.name.removeprefix(_ASIDE)
        if item.info.name == _MARGIN:
            message.smallest_margin = float(item.array)
        elif item.info.name.startswith(_ASIDE):
            tables[name, item.info.step] = item.values()
        else:
            taps.append(item)
    names = dict.fromkeys(item.info.name for item in taps)
    delivered = {pattern_of(name) for name in names}
    patterns = [row.pattern for row in table() if row.pattern in delivered]
    done = pb.Run(arithmetic=run.request.run.arithmetic, backend=pb.EAGER, materialised=patterns)
    taps = [_with_inputs(item, names, message.config) for item in taps]
    return Recording(message, provenance, done, taps), tables
