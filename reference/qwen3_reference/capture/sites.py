"""Which modules are being recorded, and under which names: what hooks and the attention function share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import nn

Sink = Callable[[str, torch.Tensor], None]

IN_ENCODER_HALF: ContextVar[bool] = ContextVar("in_encoder_half", default=False)
SITES: dict[nn.Module, Site] = {}


@dataclass(frozen=True)
class Site:
    """A module that is being recorded: `prefix` stands before the names it emits; `keys` = it has a cache to show."""

    prefix: str
    sink: Sink
    wanted: Callable[[str], bool]
    encoder_length: int = 0
    has_cache: bool = False

    def emit(self, suffix: str, value: torch.Tensor) -> None:
        name = self.prefix + suffix
        if self.wanted(name):
            self.sink(name, value)


def emit(module: nn.Module, suffix: str, value: torch.Tensor) -> None:
    """Hand over a tap that no hook can see; `module` is an attached attention or stack, else nothing happens."""
    site = SITES.get(module)
    if site is not None:
        site.emit(suffix, value)


@contextmanager
def encoder_half() -> Iterator[None]:
    """Inside, k_proj, v_proj, k_norm and rotary_emb are recorded as the merged attention's encoder half."""
    token = IN_ENCODER_HALF.set(True)
    try:
        yield
    finally:
        IN_ENCODER_HALF.reset(token)
