"""The same request in other steps: at once, token by token, in chunks; put together and cut into the case's steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch

from detection.honest.around import Around
from detection.honest.variation import Build, Variation
from qwen3_golden import Array, Place, Recording, pb, place
from qwen3_parity.recording.ours.network import EncoderDecoder, encoder_decoder
from qwen3_parity.recording.record import Factory, Tap

Steps = Callable[[Sequence[int]], list[int]]
"""From the query lengths of a case to those that are run instead, of the same sum."""
_EVERY_STEP = ("inv_freq", "cache_encoder_keys", "cache_encoder_values")
"""Taps without a query that are shown again in each step; the encoder's others are made in the first alone."""


@dataclass(frozen=True)
class Rechunked(Around):
    """A runner (see `record.Runner`) that decodes in steps of its own and hands over the case's steps."""

    steps: Steps

    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, is_wanted: Callable[[str], bool]) -> None:
        """Run the other steps; taps come name by name."""
        rechunked = pb.Case.FromString(case.SerializeToString())
        rechunked.steps[:] = self.steps(case.steps)
        rechunked.max_new_tokens = 0
        rechunked.ClearField("generation")
        taken: dict[str, dict[int, Any]] = {}
        self.inner(rechunked, inputs, lambda name, step, x: taken.setdefault(name, {}).update({step: x}), is_wanted)
        for name, parts in taken.items():
            target = place(name, case.config.num_hidden_layers)
            assert target is not None
            for step, value in _cut(target, parts, rechunked.steps, case.steps).items():
                tap(name, step, value)
        if case.max_new_tokens:  # by the case's own prompt
            self.inner(case, inputs, tap, lambda _name: False)


def _cut(target: Place, parts: Mapping[int, Any], ran: Sequence[int], steps: Sequence[int]) -> dict[int, Any]:
    """A tap as the case's steps have it, from what it was in the steps that were run."""
    if target.name.startswith("encoder.") or (target.axes == ("batch", "key") and "encoder_" in target.name):
        return {0: parts[0]}
    ends = list(accumulate(ran))
    spans = list(enumerate(pairwise(accumulate(steps, initial=0))))
    if "query" in target.axes:
        whole = _joined(target, parts, ran)
        return {step: _rows(target, whole, start, stop, ends[-1]) for step, (start, stop) in spans}
    if target.op == "cache":
        last = parts[len(ran) - 1]
        return {step: last[:, :, :stop] for step, (_, stop) in spans}
    return {step: parts[0] for step, _ in spans} if target.name.endswith(_EVERY_STEP) else {0: parts[0]}


def _joined(target: Place, parts: Mapping[int, Any], ran: Sequence[int]) -> Any:
    """All rows in one; a row's keys stand where they would if every slot were there, and 0 where it has none."""
    axis, total = target.axes.index("query"), sum(ran)
    if "key" not in target.axes:
        return torch.cat([parts[step] for step in range(len(ran))], dim=axis)
    encoder = parts[0].shape[-1] - ran[0]
    wide = []
    for step, stop in enumerate(accumulate(ran)):
        part = parts[step]
        missing = part.new_zeros(*part.shape[:-1], total - stop)
        wide.append(torch.cat((part[..., :stop], missing, part[..., part.shape[-1] - encoder :]), dim=-1))
    return torch.cat(wide, dim=axis)


def _rows(target: Place, whole: Any, start: int, stop: int, total: int) -> Any:
    rows = whole.narrow(target.axes.index("query"), start, stop - start)
    return torch.cat((rows[..., :stop], rows[..., total:]), dim=-1) if "key" in target.axes else rows


def _in(steps: Steps) -> Build:
    def build(dtype: torch.dtype) -> Factory:
        def factory(case: pb.Case, checkpoints: Mapping[str, Path]) -> Rechunked:
            inner = encoder_decoder(case, checkpoints, backend="eager", dtype=dtype)
            assert isinstance(inner, EncoderDecoder)
            return Rechunked(inner, steps)

        return factory

    return build


def _chunks(size: int) -> Steps:
    return lambda steps: [min(size, sum(steps) - start) for start in range(0, sum(steps), size)]


def _decodes(golden: Recording) -> bool:
    """Cases with steps; of samples a token is chosen by each step's own logits.

    A prompt that sees ahead cannot be cut.
    """
    return (
        bool(golden.case.steps)
        and golden.get("input.decoder_mask") is None
        and golden.case.generation.strategy in ("", "greedy")
    )


VARIATIONS = (
    Variation("steps_at_once", "the whole text in one forward", _in(lambda steps: [sum(steps)]), _decodes),
    Variation("steps_single", "token by token", _in(_chunks(1)), _decodes),
    Variation("steps_of_3", "chunks of three", _in(_chunks(3)), _decodes),
    Variation(
        "prefill_in_2",
        "the prefill in two chunks",
        _in(lambda steps: [*(n for n in (steps[0] // 2, steps[0] - steps[0] // 2) if n), *steps[1:]]),
        _decodes,
    ),
)
