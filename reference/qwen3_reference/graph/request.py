"""The inputs of a case: what a model's forward takes by name, checked, with what Hugging Face's generate would add."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from qwen3_golden import ParityError
from qwen3_reference.graph.pooled import inside
from qwen3_reference.graph.steps import generates

Inputs = Mapping[str, torch.Tensor]
"""Tensors by the forward's argument names, of the whole length."""
FEATURES = ("input_features", "input_values")
"""What a model hears, whose length counts nothing that a decoder reads."""
_FIRST = ("decoder_input_ids", "decoder_inputs_embeds", "input_ids", "inputs_embeds")


def refuse(rule: str, expected: object, got: object, next_step: str = "correct the inputs") -> ParityError:
    """The refusal of inputs that a model cannot be run on."""
    return ParityError("inputs", rule, expected=expected, got=got, next_step=next_step)


def query_axis(name: str, value: torch.Tensor) -> int:
    """Which axis of an input counts positions: the second of features `[batch, query, channel]`, else the last."""
    return 1 if value.ndim == 3 and not name.endswith("position_ids") else value.ndim - 1


def batch_axis(name: str, value: torch.Tensor) -> int:
    """Which axis of an input counts rows: the first, but of `[section, batch, query]` positions the second."""
    return value.ndim - 2 if name.endswith("position_ids") else 0


def sides(inputs: Inputs) -> dict[str, int]:
    """How many positions the side that is cut into steps has, by its argument, first; then the encoder's."""
    names = [name for name in _FIRST if name in inputs]
    if not names:
        raise refuse("nothing to run", f"one of {', '.join(_FIRST)}", ", ".join(inputs) or "nothing")
    return {name: inputs[name].shape[1] for name in names if inputs[name].ndim > 1}


def completed(
    model: nn.Module, inputs: Inputs, steps: Sequence[int]
) -> tuple[dict[str, torch.Tensor], tuple[int, ...]]:
    """The inputs with `position_ids` where a decoder takes them and none were handed in, and the query lengths.

    Without `steps` everything is one forward. Raises `ParityError` for arguments that the model does not take, for
    tensors that do not go together, and for steps that do not add up.
    """
    names = inspect.signature(inside(model).forward).parameters
    anything = any(parameter.kind == inspect.Parameter.VAR_KEYWORD for parameter in names.values())
    for name, value in inputs.items():
        _check(name, value, anything or name in names, names)
    lengths = sides(inputs)
    if not lengths:
        raise refuse("ids have no axis of positions", "[batch, query]", "a vector")
    length, rows = (
        next(iter(lengths.values())),
        {value.shape[batch_axis(name, value)] for name, value in inputs.items()},
    )
    if len(rows) != 1:
        raise refuse("the inputs have other numbers of rows", "one number", ", ".join(map(str, sorted(rows))))
    steps = tuple(int(step) for step in steps) or (length,)
    if min(steps) < 1 or sum(steps) != length:
        raise refuse("the steps do not add up to the length", f"positive numbers that make {length}", list(steps))
    if len(steps) > 1 and model is not inside(model):
        raise refuse("a module around a model runs in one step", [length], list(steps), "leave the steps out")
    whole = dict(inputs)
    mask = inputs.get("attention_mask")
    if (
        "position_ids" in names
        and "position_ids" not in inputs
        and mask is not None
        and mask.ndim == 2
        and "decoder_input_ids" not in inputs
        and generates(inside(model))
    ):
        whole["position_ids"] = (mask.long().cumsum(-1) - 1).clamp(min=0)
    return whole, steps


def _check(name: str, value: object, known: bool, names: Mapping[str, Any]) -> None:
    if not known:
        raise refuse(f"the model's forward does not take {name!a}", ", ".join(names), name)
    if not isinstance(value, torch.Tensor) or not value.ndim or not value.numel():
        got = f"{list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise refuse(f"{name} is no tensor with a batch", "a tensor of at least one row", got)
    if value.is_floating_point() and not bool(torch.isfinite(value).all()):
        raise refuse(f"{name} has values that are NaN or infinite", "finite numbers", "others")


def wider(inputs: Inputs) -> dict[str, torch.Tensor]:
    """The same with the first row once more."""
    return {name: _again(value, batch_axis(name, value)) for name, value in inputs.items()}


def longer(inputs: Inputs) -> dict[str, torch.Tensor]:
    """The same with the first position once more, on both sides of an encoder–decoder; sound is as long as it is."""
    extended = {
        name: value if name in FEATURES else _again(value, query_axis(name, value)) for name, value in inputs.items()
    }
    square = [name for name, value in inputs.items() if value.ndim == 4]
    return extended | {name: _again(extended[name], 2) for name in square}


def _again(value: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.cat([value.narrow(axis, 0, 1), value], axis)
