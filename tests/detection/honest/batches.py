"""The rows of a batch in other company: each alone, in another order, beside copies of themselves; joined by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from detection.honest.around import Around
from detection.honest.variation import Build, Variation
from qwen3_golden import Array, pb, place
from qwen3_parity.recording.ours.network import EncoderDecoder, encoder_decoder
from qwen3_parity.recording.record import Factory, Tap

Groups = Callable[[int], list[list[int]]]
"""From the number of rows to the batches that are run, as lists of rows; every row is in one of them."""


@dataclass(frozen=True)
class Regrouped(Around):
    """A runner (see `record.Runner`) that runs batches of its own and hands over the case's rows."""

    groups: Groups

    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, is_wanted: Callable[[str], bool]) -> None:
        """Run every batch; taps come in the order of the first one."""
        taken: dict[tuple[str, int], list[Any]] = {}
        rows = len(next(value for name, value in inputs.items() if name.startswith("input.")))
        groups = self.groups(rows)
        for group in groups:
            part = {name: value[group] for name, value in inputs.items()}
            self.inner(case, part, lambda name, step, x: taken.setdefault((name, step), []).append(x), is_wanted)
        ran = [row for group in groups for row in group]
        order = [ran.index(row) for row in range(rows)]
        for (name, step), parts in taken.items():
            target = place(name, case.config.num_hidden_layers)
            batched = target is not None and target.axes[0] == "batch"
            tap(name, step, torch.cat(parts)[order] if batched else parts[0])


def _in(groups: Groups) -> Build:
    def build(dtype: torch.dtype) -> Factory:
        def factory(case: pb.Case, checkpoints: Mapping[str, Path]) -> Regrouped:
            inner = encoder_decoder(case, checkpoints, backend="eager", dtype=dtype)
            assert isinstance(inner, EncoderDecoder)
            return Regrouped(inner, groups)

        return factory

    return build


VARIATIONS = (
    Variation("rows_alone", "every row in a batch of its own", _in(lambda rows: [[row] for row in range(rows)])),
    Variation("rows_reversed", "the batch in reverse order", _in(lambda rows: [list(range(rows))[::-1]])),
    Variation(
        "rows_doubled",
        "every row beside three copies of the batch",
        _in(lambda rows: [list(range(rows)) * 4]),
    ),
)
