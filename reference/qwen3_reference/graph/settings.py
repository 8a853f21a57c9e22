"""How the reference runs: eager attention, experts that torch exports, nothing dropped, nothing learned."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from qwen3_reference.quiet import quiet

EXPERTS = "batched_mm"
"""transformers' default on CPU, grouped_mm, is one op that no graph can look into, and wants 16-byte strides."""


@contextmanager
def as_reference(model: nn.Module) -> Iterator[None]:
    """Inside, every transformers model within `model` runs as the reference does; afterwards as before."""
    configs = _configs(model)
    before = [(config, dict(vars(config))) for config in configs]
    training = {module: module.training for module in model.modules()}
    try:
        model.eval()
        for config in configs:
            config._attn_implementation, config._experts_implementation = "eager", EXPERTS
        with torch.no_grad(), quiet(), _sets_in_order(model):
            yield
    finally:
        for config, said in before:
            vars(config).clear()
            vars(config).update(said)
        for module, mode in training.items():
            module.training = mode


@contextmanager
def unstretched(model: nn.Module, length: int) -> Iterator[None]:
    """Inside, dynamic RoPE that texts of this length do not stretch asks no text for its length: no export can ask."""
    ropes: list[Any] = [module for module in model.modules() if "dynamic" in str(getattr(module, "rope_type", ""))]
    short = [rope for rope in ropes if length <= rope.original_max_seq_len == rope.max_seq_len_cached]
    before = [(rope, rope.rope_type) for rope in short if isinstance(rope.rope_type, str)]
    try:
        for rope, _ in before:
            rope.rope_type = "default"
        yield
    finally:
        for rope, kind in before:
            rope.rope_type = kind


@contextmanager
def unmoved() -> Iterator[None]:
    """Inside, a module that is asked to be of the type that it has stays as it is: an export moves no parameter."""
    plain = nn.Module.to

    def to(module: nn.Module, *args: Any, **named: Any) -> nn.Module:
        stays = len(args) == 1 and not named and {parameter.dtype for parameter in module.parameters()} == {args[0]}
        return module if stays else plain(module, *args, **named)

    nn.Module.to = to  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        nn.Module.to = plain  # type: ignore[method-assign]


class _InOrder(set[Any]):
    """A set that is gone through in the same order in every process."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__(), key=repr))


@contextmanager
def _sets_in_order(model: nn.Module) -> Iterator[None]:
    """Some of transformers' forwards go through `set(config.layer_types)`, whose order is the hash seed's."""
    files = {sys.modules[type(module).__module__] for module in model.modules()}
    theirs = [file for file in files if file.__name__.startswith("transformers.models.") and "set" not in vars(file)]
    for file in theirs:
        vars(file)["set"] = _InOrder
    try:
        yield
    finally:
        for file in theirs:
            del vars(file)["set"]


def _configs(model: nn.Module) -> list[Any]:
    """Every configuration that a module of the model reads, each once."""
    every = (getattr(module, "config", None) for module in model.modules())
    return list({id(config): config for config in every if hasattr(config, "_attn_implementation")}.values())
