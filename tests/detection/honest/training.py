"""Other ways to the same gradients: layers computed again on the way back, rows one by one; and who has no way back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from detection.honest.around import Around
from detection.honest.ours import Patch, ours
from detection.honest.variation import Variation
from qwen3_encdec import modeling_qwen3_encdec
from qwen3_golden import Array, Recording, pb, place
from qwen3_parity.recording.ours.network import EncoderDecoder, encoder_decoder
from qwen3_parity.recording.record import Factory, Tap

_FORWARD_ALONE = frozenset(
    {
        *("flex", "flex_compiled", "rows_alone", "rows_reversed", "rows_doubled", "steps_at_once", "steps_single"),
        *("steps_of_3", "prefill_in_2", "call_static_cache", "call_inference_mode", "numpy_port"),
        *("numpy_port_float64", "sequential_float32", "float64"),
    }
)
"""Variations without gradients: other batches and steps than a training step's, ports, kernels without a way back."""
_OTHER_PARAMETERS = frozenset({"head_copied", "rope_interleaved"})
"""Variations whose parameters are others (a copy, another order of rows), and so are their gradients."""


def differentiable(variation: Variation, golden: Recording) -> bool:
    """Whether a variation has the gradients that a golden has, if it has any."""
    return not golden.case.HasField("training") or variation.name not in _FORWARD_ALONE | _OTHER_PARAMETERS


def _trains(golden: Recording) -> bool:
    return golden.case.HasField("training")


def _checkpointed(runner: EncoderDecoder, *, reentrant: bool) -> Iterable[Patch]:
    runner.model.activation_checkpointing_enable({"use_reentrant": reentrant})
    return ()


def _outside_of_layers(row: pb.Tap) -> bool:
    """Inside, a reentrant checkpoint has no gradients to show but those of parameters."""
    return ".layers." not in row.pattern or row.pattern.endswith((".weight", ".bias"))


@dataclass(frozen=True)
class RowByRow(Around):
    """A runner that goes back from each row alone, its loss divided by the labels of all: gradients accumulate."""

    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, is_wanted: Any) -> None:
        """Run every row; parameters' gradients and losses are added, the rest is put together by row."""
        count = int((inputs["input.labels"] != -100).sum())
        loss = partial(modeling_qwen3_encdec._loss, num_items_in_batch=count)
        taken: dict[str, list[Any]] = {}
        with patch.object(modeling_qwen3_encdec, "_loss", lambda logits, labels, _count: loss(logits, labels)):
            for row in range(len(inputs["input.labels"])):
                part = {name: value[row : row + 1] for name, value in inputs.items()}
                self.inner(case, part, lambda name, step, x: taken.setdefault(name, []).append(x), is_wanted)
        for name, parts in taken.items():
            target = place(name, case.config.num_hidden_layers)
            assert target is not None
            if target.axes[:1] == ("batch",):
                tap(name, 0, torch.cat(parts))
            else:
                added = name.startswith(("gradient.", "loss"))
                tap(name, 0, torch.stack(parts).sum(dim=0) if added else parts[0])


def _row_by_row(dtype: torch.dtype) -> Factory:
    def factory(case: pb.Case, checkpoints: Mapping[str, Path]) -> RowByRow:
        inner = encoder_decoder(case, checkpoints, backend="eager", dtype=dtype)
        assert isinstance(inner, EncoderDecoder)
        return RowByRow(inner)

    return factory


VARIATIONS = (
    Variation(
        "gradient_checkpointing",
        "layers are computed again on the way back",
        ours(partial(_checkpointed, reentrant=False)),
        _trains,
    ),
    Variation(
        "gradient_checkpointing_reentrant",
        "the same by a second autograd inside",
        ours(partial(_checkpointed, reentrant=True), shows=_outside_of_layers),
        _trains,
    ),
    Variation("gradients_accumulated", "rows one by one, their gradients added", _row_by_row, _trains),
)
