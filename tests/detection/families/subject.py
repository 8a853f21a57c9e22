"""A tiny model of a family with what it is run on: prefill and two steps with a cache, the first row padded."""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from detection.families.models import ENCODERS, NAMED, UNMASKED, UNPLACED, WHOLE, result, tiny
from detection.families.patch import forward_of
from qwen3_reference.graph.request import completed
from qwen3_reference.graph.tiny import tiny_inputs

_LENGTH, _PADDED, _STEPS = 11, 3, (9, 1, 1)
_CACHES = ("past_key_values", "cache", "cache_params")
"""What families call their cache."""
_CUT = frozenset({"input_ids", "position_ids", "decoder_input_ids"})
"""Inputs of which a step gets its part alone; of a mask it gets all up to its end."""


@dataclass(frozen=True)
class Subject:
    """A family's model, its inputs by the names of the forward's arguments, and the positions of each forward."""

    family: str
    model: Any
    inputs: Mapping[str, torch.Tensor]
    steps: tuple[int, ...]

    def run(self, model: Any = None, steps: Sequence[int] | None = None) -> torch.Tensor:
        """Results of all positions, [batch, query, …], from one forward for each step, with a cache between them."""
        model, steps = self.model if model is None else model, self.steps if steps is None else steps
        names = inspect.signature(type(self.model).forward).parameters
        (name, *_) = (*(cache for cache in _CACHES if cache in names), "")
        results, state, start = [], None, 0
        with torch.no_grad():
            for length in steps:
                inputs = {name: _on(model, value) for name, value in self.inputs.items()}
                part = _part(inputs, start, start + length) if len(steps) > 1 else inputs
                more: dict[str, Any] = {} if state is None else {name: state}
                output = model(**part, **more, use_cache=bool(name) and len(steps) > 1)
                state = output.get(name) if name else None
                results.append(result(output).cpu())
                start += length
        return torch.cat(results, 1)

    def gap(self, results: torch.Tensor) -> float:
        """How far real positions are from those of the model as it is, in parts of the largest number."""
        clean, real = self.clean, self.real
        if not bool(torch.isfinite(results[real]).all()):
            return float("inf")
        return float((results.double() - clean.double())[real].abs().max() / clean[real].abs().max())

    @property
    def is_float32(self) -> bool:
        """Whether the parameters are in float32."""
        return all(parameter.dtype == torch.float32 for parameter in self.model.parameters())

    @cached_property
    def clean(self) -> torch.Tensor:
        """What the model as it is gives."""
        return self.run()

    @cached_property
    def real(self) -> torch.Tensor:
        """Which positions of the results are no padding, [batch, query]."""
        if self.model.config.is_encoder_decoder:
            return torch.ones(self.clean.shape[:2], dtype=torch.bool)
        mask = self.inputs.get("attention_mask", torch.ones_like(self.inputs["input_ids"]))
        return mask.bool()

    @cached_property
    def calls(self) -> Mapping[str, Counter[str]]:
        """By the path of each module that runs, in the model's order: the torch functions that it calls itself."""
        every = dict(self.model.named_modules())
        calls, open_ = defaultdict[str, Counter[str]](Counter), [""]
        with ExitStack() as stack:
            for path, module in every.items():
                stack.enter_context(forward_of(module, _noting(path, calls, open_)))
            with _Noted(calls, open_):
                self.run()
        return {path: calls[path] for path in every if path in calls}

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Every module that runs, with its path."""
        every = dict(self.model.named_modules())
        return ((path, every[path]) for path in self.calls)


def _part(inputs: Mapping[str, torch.Tensor], start: int, end: int) -> dict[str, torch.Tensor]:
    return {name: value[:, start if name in _CUT else 0 : end] for name, value in inputs.items()}


def _on(model: Any, value: torch.Tensor) -> torch.Tensor:
    """An input where a model is, and in its type if it is one of floats."""
    return value.to(model.device, model.dtype if value.is_floating_point() else value.dtype)


def _noting(path: str, calls: defaultdict[str, Counter[str]], open_: list[str]) -> Any:
    def noted(inner: Any, *args: Any, **kwargs: Any) -> Any:
        calls[path]["forward"] += 1
        open_.append(path)
        try:
            return inner(*args, **kwargs)
        finally:
            open_.pop()

    return noted


class _Noted(TorchFunctionMode):
    def __init__(self, calls: defaultdict[str, Counter[str]], open_: list[str]) -> None:
        super().__init__()
        self.calls, self.open = calls, open_

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[self.open[-1]][getattr(func, "__name__", "")] += 1
        return func(*args, **(kwargs or {}))


@cache
def subject(family: str, *, bfloat16: bool = False) -> Subject:
    """A family's model with its inputs; the first row begins with padding."""
    model = _halved(tiny(family)) if bfloat16 else tiny(family)
    prepared = Subject(family, model, *_request(family, model))
    assert prepared.clean is not None and prepared.calls  # now, while nothing is changed
    return prepared


def _request(family: str, model: Any) -> tuple[dict[str, torch.Tensor], tuple[int, ...]]:
    if family in NAMED:
        inputs, steps = tiny_inputs(model, 1)
        return completed(model, inputs, () if model.config.is_encoder_decoder else steps)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 61, (2, _LENGTH), generator=generator)
    if family in UNMASKED:
        return {"input_ids": ids}, _STEPS
    mask = torch.ones_like(ids)
    mask[0, :_PADDED] = 0
    ids[0, :_PADDED] = model.config.get_text_config().pad_token_id or 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if model.config.is_encoder_decoder:
        return {**inputs, "decoder_input_ids": torch.randint(3, 61, (2, 5), generator=generator)}, (5,)
    if "position_ids" in inspect.signature(type(model).forward).parameters and family not in ENCODERS | UNPLACED:
        inputs["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    return inputs, (_LENGTH,) if family in WHOLE else _STEPS


@contextmanager
def restored(model: nn.Module) -> Iterator[None]:
    """Numbers and types of a model's parameters and buffers as they are now, again at the end."""
    parameters = [(parameter, parameter.data) for parameter in model.parameters()]
    buffers = [(module, dict(module._buffers)) for module in model.modules()]
    try:
        yield
    finally:
        for parameter, data in parameters:
            parameter.data = data
        for module, before in buffers:
            module._buffers.update(before)


def _halved(model: nn.Module) -> nn.Module:
    """A copy with parameters in bfloat16; buffers, RoPE's frequencies among them, stay as transformers has them."""
    copy = deepcopy(model)
    for parameter in copy.parameters():
        parameter.data = parameter.data.bfloat16()
    return copy
