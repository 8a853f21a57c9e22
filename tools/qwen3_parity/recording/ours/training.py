"""Our own encoder–decoder on a training case: one step in training mode, its loss, its gradients as taps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import nn

from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_golden import Array, pb
from qwen3_parity.recording.record import Tap

Wanted = Callable[[str], bool]
GRADIENT, LOSS = "gradient.", "loss"
_USED: Mapping[int, tuple[str, ...]] = {
    pb.CAUSAL: ("shared.", "decoder.", "lm_head."),
    pb.ENCODER_DECODER: ("shared.", "encoder.", "decoder.", "lm_head."),
}
"""The parameters that a case trains, by how their names begin."""


class Recorded(Protocol):
    """What attaches the hooks of a runner: `recorded(tap, step, records, encoder_length)`."""

    def __call__(self, tap: Tap, step: int, records: Wanted, encoder_length: int) -> AbstractContextManager[None]: ...


class ForwardTaps:
    """The taps of a forward, which hold their gradients once `loss.backward()` has run."""

    def __init__(self) -> None:
        self.values: dict[str, torch.Tensor] = {}

    def keep(self, name: str, _step: int, value: Any) -> None:
        """The sink of the hooks. A layer that is computed again for the way back is not the one that gets gradients."""
        if name in self.values:
            return
        self.values[name] = value
        if value.requires_grad and not value.is_leaf:
            value.retain_grad()

    def gradients(self) -> dict[str, torch.Tensor]:
        """Of every tap that could have one, last first; 0 where nothing was passed back."""
        floating = {n: v for n, v in reversed(self.values.items()) if v.is_floating_point() and v.requires_grad}
        return {name: _gradient(value) for name, value in floating.items()}


def _gradient(value: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(value) if value.grad is None else value.grad


def backward(loss: torch.Tensor) -> None:
    """The way back of one step."""
    loss.backward()  # type: ignore[no-untyped-call]


def training_mode(model: nn.Module) -> None:
    """Training mode without dropout: what is random can be compared with nothing."""
    for module in model.train().modules():
        if hasattr(module, "attention_dropout"):
            setattr(module, "attention_dropout", 0.0)  # noqa: B010  # a plain number, typed as anything a module may hold


@torch.enable_grad()
def run_training(
    model: Qwen3ForSeq2SeqLM,
    case: pb.Case,
    inputs: Mapping[str, Array],
    request: Mapping[str, Any],
    recorded: Recorded,
    tap: Tap,
    records: Wanted,
) -> None:
    """One step of `case` without a cache; `request` has the arguments of the model but labels and `use_cache`.

    Taps come in this order: forward, loss, gradients of taps from the last to the first, gradients of parameters.
    """
    training_mode(model)
    model.zero_grad()
    forward_taps = ForwardTaps()
    length = inputs["input.encoder_input_ids"].shape[1] if case.mode == pb.ENCODER_DECODER else 0
    with recorded(forward_taps.keep, 0, lambda name: records(name) or records(GRADIENT + name), length):
        result = model(**request, labels=torch.from_numpy(inputs["input.labels"].copy()), use_cache=False)
    forward_taps.keep("logits", 0, result.logits)
    backward(result.loss)
    parameters = {n: _gradient(p) for n, p in model.named_parameters() if n.startswith(_USED[case.mode])}
    gradients = {GRADIENT + name: value for name, value in (forward_taps.gradients() | parameters).items()}
    for name, value in (forward_taps.values | {LOSS: result.loss} | gradients).items():
        if records(name):
            tap(name, 0, value.detach().clone())
    model.zero_grad()
    model.train(False)
