"""Mistakes of norms."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from detection.families.mistakes.seed import Seed, last, mistake
from detection.families.patch import changed, filled, forward_of
from detection.families.subject import Subject

_EPS = ("variance_epsilon", "eps", "epsilon")


def _norms(subject: Subject) -> list[tuple[str, nn.Module]]:
    """Norms with a weight that give what they get in its shape."""
    return [
        (path, module)
        for path, module in subject.modules()
        if "norm" in type(module).__name__.lower()
        and "gated" not in type(module).__name__.lower()
        and isinstance(getattr(module, "weight", None), torch.Tensor)
    ]


@mistake
def norm_eps(subject: Subject) -> Seed | None:
    """A number under the root that is too large."""
    norm = last(_norms(subject), before=1)
    name = next((name for name in _EPS if norm and isinstance(getattr(norm[1], name, None), float)), None)
    if norm is None or name is None:
        return None
    return Seed((norm[0],), lambda: changed(norm[1], name, 1e-2 + getattr(norm[1], name)))


@mistake
def norm_left_out(subject: Subject) -> Seed | None:
    """A norm gives what it gets."""
    norm = last(_norms(subject), before=2)
    if norm is None:
        return None

    def around(_inner: Any, x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return x.clone()

    return Seed((norm[0],), lambda: forward_of(norm[1], around))


@mistake
def one_plus_norm_weight(subject: Subject) -> Seed | None:
    """1 + w for w, as another family has it."""
    norm = last(_norms(subject))
    if norm is None:
        return None
    weight: Any = norm[1].weight
    return Seed((norm[0],), lambda: filled(weight, weight + 1))


@mistake
def norm_takes_the_mean_away(subject: Subject) -> Seed | None:
    """LayerNorm for RMSNorm."""
    norm = last(((p, m) for p, m in _norms(subject) if "LayerNorm" not in type(m).__name__), before=3)
    if norm is None:
        return None

    def around(inner: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return inner(x - x.mean(-1, keepdim=True), *args, **kwargs)

    return Seed((norm[0],), lambda: forward_of(norm[1], around))
