"""Networks of the tests' own sizes, run by the specification from the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from qwen3_golden import Network, pb
from qwen3_spec import FLOAT64, Arithmetic, RopeScaling, SpecConfig
from qwen3_spec.classic_config import ClassicConfig
from qwen3_spec.site import Result, Site
from qwen3_spec.sweep import Specification

Taps = dict[str, np.ndarray]


def model_config(config: SpecConfig) -> pb.ModelConfig:
    """The same numbers as the table reads them."""
    known = {field.name for field in pb.ModelConfig.DESCRIPTOR.fields}
    numbers = {field.name: getattr(config, field.name) for field in fields(config) if field.name in known}
    numbers = {
        name: value for name, value in numbers.items() if value is not None and not isinstance(value, RopeScaling)
    }
    message = pb.ModelConfig(**{n: list(v) if isinstance(v, tuple) else v for n, v in numbers.items()})
    if isinstance(config, ClassicConfig):
        for name in (field.name for field in pb.ClassicEncoder.DESCRIPTOR.fields):
            if hasattr(config, name):
                setattr(message.classic_encoder, name, getattr(config, name))
    return message


def run(
    weights: Mapping[str, np.ndarray],
    config: SpecConfig,
    known: Mapping[tuple[str, int], np.ndarray],
    stacks: Sequence[str],
    steps: Sequence[int] = (),
    arithmetic: Arithmetic = FLOAT64,
    overrides: Mapping[str, Callable[[Site], Result]] | None = None,
    training: pb.Training | None = None,
) -> list[Taps]:
    """The taps of every step, in the order in which they are made."""
    message = model_config(config)
    case: Any = pb.Case(config=message, steps=steps, training=training)
    taps: list[Taps] = [{} for _ in range(max(1, len(steps)))]
    network = Network(message, frozenset(stacks))
    Specification(network, case, config, weights, known, arithmetic, overrides or {}).walk(
        lambda step, name, value: taps[step].__setitem__(name, value)
    )
    return taps
