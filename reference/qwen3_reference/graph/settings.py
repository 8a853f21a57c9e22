"""How the reference runs: eager attention, experts that torch exports, nothing dropped, nothing learned."""

from __future__ import annotations

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
        with torch.no_grad(), quiet():
            yield
    finally:
        for config, said in before:
            vars(config).clear()
            vars(config).update(said)
        for module, mode in training.items():
            module.training = mode


def _configs(model: nn.Module) -> list[Any]:
    """Every configuration that a module of the model reads, each once."""
    every = (getattr(module, "config", None) for module in model.modules())
    return list({id(config): config for config in every if hasattr(config, "_attn_implementation")}.values())
