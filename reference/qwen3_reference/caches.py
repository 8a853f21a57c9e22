"""What transformers calls a cache, `past_key_values` up to 5.23 and `cache` from 5.24 on, and the tensors in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import torch

try:
    from transformers.modeling_outputs import CausalLMOutputWithPast
except ModuleNotFoundError:  # a model may be somebody's own altogether
    _FIELDS = set[str]()
else:
    _FIELDS = {field.name for field in fields(CausalLMOutputWithPast)}

CACHE = "cache" if "cache" in _FIELDS else "past_key_values"
"""The name of the arguments of models and of builders of masks, and of the fields of outputs."""
_BEFORE_LAYERS = (("keys", "key_cache"), ("values", "value_cache"))
"""Caches of transformers before 4.54 are two lists."""


def states(cache: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor that a cache keeps, as "cache.0.keys"; of the encoder's side as "cache.0.cross_keys"."""
    sides = [
        ("", getattr(cache, "self_attention_cache", cache)),
        ("cross_", getattr(cache, "cross_attention_cache", None)),
    ]
    for prefix, side in sides:
        for number, layer in enumerate(getattr(side, "layers", ())):
            for attribute, value in vars(layer).items():
                if not attribute.startswith("_"):
                    yield from _tensors(f"cache.{number}.{prefix}{attribute}", value)
        for name, attribute in () if hasattr(side, "layers") else _BEFORE_LAYERS:
            for number, value in enumerate(getattr(side, attribute, ())):
                yield from _tensors(f"cache.{number}.{prefix}{name}", value)


def _tensors(name: str, value: object) -> Iterator[tuple[str, torch.Tensor]]:
    """A tensor, or those in a list or dict, which some states are: the first under the bare name."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping | list | tuple):
        members = value.values() if isinstance(value, Mapping) else value
        for place, member in enumerate(members):
            yield from _tensors(f"{name}[{place}]" if place else name, member)
