"""What an honest variation is, as data: another way to compute the same network, which must pass every check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from qwen3_golden import Recording, pb
from qwen3_parity.recording.record import Factory

Build = Callable[[torch.dtype], Factory]
"""The factory of a variation for a case that is run in this dtype."""


def everywhere(_golden: Recording) -> bool:
    """Every case with a network."""
    return True


def float32_alone(golden: Recording) -> bool:
    """Cases in float32: in half precision another cast point is another network."""
    return golden.run.arithmetic == pb.ARITHMETIC_F32


@dataclass(frozen=True)
class Variation:
    """One honest way to compute.

    `name` is a stable id, `says` what is different; `build` gives its factory; `applies` tells the cases in which it is
    the same network. `environment` holds variables that a process of its own needs from its start. `slow`: seconds for
    a case rather than tenths.
    """

    name: str
    says: str
    build: Build
    applies: Callable[[Recording], bool] = everywhere
    environment: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False
