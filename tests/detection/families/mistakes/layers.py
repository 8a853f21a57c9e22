"""Mistakes of layers, of state-space layers and of a family's constants."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from detection.families.mistakes.seed import Seed, calling, last, mistake
from detection.families.patch import changed, filled, functions_in
from detection.families.subject import Subject

_CONSTANTS = (
    *("alpha", "limit", "residual_multiplier", "routed_scaling_factor", "key_multiplier", "lambda_init"),
    *("attn_logit_softcapping", "embedding_multiplier", "embed_scale", "scalar_embed_scale"),
)
_OF_THE_CONFIG = (
    "final_logit_softcapping",
    "logits_scaling",
    "logit_scale",
    "lm_head_multiplier",
    "mup_width_multiplier",
)


def _adding(subject: Subject) -> list[tuple[str, nn.Module]]:
    """Modules that add once or twice a forward and compute little else: layers with their residuals."""
    every = calling(subject, "add")
    return [
        (path, module)
        for path, module in every
        if any(True for _ in module.children())
        and not subject.calls[path]["matmul"]
        and not subject.calls[path]["softmax"]
        and (path.rpartition(".")[2].isdigit() or path.endswith("output"))
    ]


def _sum(subject: Subject, change: Any, *, before: int = 0) -> Seed | None:
    layer = last(_adding(subject), before=before)
    if layer is None:
        return None

    def around(add: Any, x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        both = isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) and x.shape == y.shape and x.ndim == 3
        return change(add, x, y) if both else add(x, y, *args, **kwargs)

    return Seed((layer[0],), lambda: functions_in(layer[1], {"add": around}))


@mistake
def residual_left_out(subject: Subject) -> Seed | None:
    """What a sub-layer gives, without what it got."""
    return _sum(subject, lambda _add, _x, y: y)


@mistake
def residual_twice(subject: Subject) -> Seed | None:
    """What a sub-layer got, added twice."""
    return _sum(subject, lambda add, x, y: add(add(x, x), y), before=1)


@mistake
def another_constant(subject: Subject) -> Seed | None:
    """One of a family's numbers, a tenth larger."""
    for path, module in reversed(list(subject.modules())):
        for name in _CONSTANTS:
            value = getattr(module, name, None)
            if isinstance(value, torch.Tensor) and value.numel() == 1:
                return Seed((path,), lambda v=value: filled(v, 1.1 * v))  # type: ignore[misc]
            if isinstance(value, float) and value:
                return Seed((path,), lambda m=module, n=name, v=value: changed(m, n, 1.1 * v))  # type: ignore[misc]
    return None


@mistake
def another_constant_of_the_logits(subject: Subject) -> Seed | None:
    """Softcap or scale of the logits, a tenth larger."""
    config = subject.model.config
    for name in _OF_THE_CONFIG:
        place = subject.model if hasattr(subject.model, name) else config
        value = getattr(place, name, None)
        if isinstance(value, int | float) and value:
            return Seed(("", "lm_head"), lambda p=place, n=name, v=value: changed(p, n, 1.1 * v))  # type: ignore[misc]
    return None


@mistake
def convolution_turned_round(subject: Subject) -> Seed | None:
    """The kernel of a causal convolution from its end."""
    convolutions = [(path, module) for path, module in subject.model.named_modules() if isinstance(module, nn.Conv1d)]
    convolution = last(convolutions)
    if convolution is None:
        return None
    weight: Any = convolution[1].weight
    parent = convolution[0].rpartition(".")[0]
    return Seed((convolution[0], parent), lambda: filled(weight, weight.flip(-1)))


@mistake
def softplus_left_out(subject: Subject) -> Seed | None:
    """Steps of a state as they come."""
    mixer = last(calling(subject, "softplus"))
    if mixer is None:
        return None
    return Seed((mixer[0],), lambda: functions_in(mixer[1], {"softplus": lambda _softplus, x, *_: torch.relu(x)}))


def _zeroed(subject: Subject, *names: str) -> Seed | None:
    for path, module in reversed(list(subject.modules())):
        for name, parameter in module.named_parameters(recurse=False):
            if name in names:
                return Seed((path,), lambda p=parameter: filled(p, torch.zeros_like(p)))  # type: ignore[misc]
    return None


@mistake
def decay_left_out(subject: Subject) -> Seed | None:
    """A state that forgets at one rate."""
    return _zeroed(subject, "A_log", "A", "slope_rate")


@mistake
def step_bias_left_out(subject: Subject) -> Seed | None:
    """dt without its bias."""
    return _zeroed(subject, "dt_bias")


@mistake
def skip_of_the_state_left_out(subject: Subject) -> Seed | None:
    """y without D·x."""
    return _zeroed(subject, "D")


@mistake
def sinks_left_out(subject: Subject) -> Seed | None:
    """Sinks of 0."""
    return _zeroed(subject, "sinks")
