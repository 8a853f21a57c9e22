"""All forwards of a case as one: the whole inputs cut into steps, each going on from the cache of the one before it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutput, MoEModelOutput

from qwen3_reference.caches import CACHE, states
from qwen3_reference.graph.taps import Taps

MODEL = "model"
"""Under which name the model stands in `Steps`."""
_CACHES = dict.fromkeys((CACHE, "past_key_values", "cache", "cache_params"))
_RESULTS = ("logits", "last_hidden_state")
_AROUND = ("pooled", "embedding", "answers", "score")
"""What a module around a model gives, if it gives a dict."""
_MEMORY = "encoder_last_hidden_state"


@dataclass
class _Memory(BaseModelOutput):
    """What an encoder gave, with the mask of it that families read which shorten sound: all of it counts."""

    attention_mask: torch.Tensor | None = None


class Steps(nn.Module):
    """A model that runs `lengths` positions a step on inputs of the whole length, and gives every tap out, in order."""

    def __init__(self, model: nn.Module, lengths: Sequence[int], taps: Taps) -> None:
        super().__init__()
        self.model, self.lengths, self.taps = model, tuple(lengths), taps
        self.names = tuple(inspect.signature(model.forward).parameters)
        self.cached = len(self.lengths) > 1 or has_cache(model)

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """The taps of all steps."""
        self.taps.clear()
        end, more = 0, dict[str, Any]()
        if self.cached and "use_cache" in self.names:
            more["use_cache"] = True
        for step, length in enumerate(self.lengths):
            begin, end = end, end + length
            self.taps.begin(step)
            output = self.model(**self._cut(inputs, begin, end), **more)
            more |= self._arguments_of(output)
        return list(self.taps.values.values())

    def _cut(self, inputs: Mapping[str, torch.Tensor], begin: int, end: int) -> dict[str, torch.Tensor]:
        """What a step sees; the one step of a case all of it, so that sizes may stay free."""
        if len(self.lengths) == 1:
            return dict(inputs)
        merged = any(name.startswith("decoder_") for name in inputs)
        cut = dict[str, torch.Tensor]()
        for name, value in inputs.items():
            if merged and not name.startswith("decoder_"):
                if not begin or name == "attention_mask":
                    cut[name] = value
            elif name.endswith("attention_mask"):
                cut[name] = value[:, :end] if value.ndim == 2 else value[..., begin:end, :end]
            else:
                cut[name] = value[..., begin:end] if name.endswith("position_ids") else value[:, begin:end]
        return cut

    def _arguments_of(self, output: Any) -> dict[str, Any]:
        """Put the step's result and states among the taps; what the next step goes on from, by argument."""
        result = next((name for name in _RESULTS if isinstance(_part(output, name), torch.Tensor)), None)
        if result is None and isinstance(output, torch.Tensor):
            self.taps.add(_RESULTS[0], output)
        for name in (result, "pooler_output", *_AROUND):
            if name is not None:
                self.taps.add(name, _part(output, name))
        arguments = dict[str, Any]()
        name = next((name for name in _CACHES if getattr(output, name, None) is not None), None)
        if self.cached and name is not None:
            cache = getattr(output, name)
            for tap, state in states(cache):
                self.taps.add(tap, state)
            arguments[name] = cache
        if isinstance(getattr(output, _MEMORY, None), torch.Tensor) and "encoder_outputs" in self.names:
            its_class = MoEModelOutput if hasattr(output, "encoder_router_logits") else _Memory
            arguments["encoder_outputs"] = its_class(last_hidden_state=getattr(output, _MEMORY))
        return arguments


def _part(output: object, name: str) -> object:
    """What a forward gave under a name, in a dict or an output of transformers."""
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def generates(model: nn.Module) -> bool:
    """Whether a model goes on from what it has read."""
    can = getattr(model, "can_generate", None)
    return bool(can is not None and can())


def has_cache(model: nn.Module) -> bool:
    """Whether states behind one forward are part of what a model computes: it generates, and its config keeps them."""
    return generates(model) and bool(getattr(getattr(model, "config", None), "use_cache", True))


def goes_on(model: nn.Module) -> bool:
    """Whether a model can go on from a forward's states: it generates, and takes a cache under some name."""
    return generates(model) and any(name in inspect.signature(model.forward).parameters for name in _CACHES)
