"""Hugging Face's own model run in other honest ways: other kernels, other orders of sums, other steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn

from detection.families.models import CUT_BADLY
from detection.families.patch import Around, functions
from detection.families.subject import Subject, restored


class Honest(NamedTuple):
    """A run that must be at parity: what is set meanwhile, and how many positions each forward takes."""

    name: str
    on: Callable[[], AbstractContextManager[None]]
    steps: tuple[int, ...]


def runs(subject: Subject, *, compiled: bool = False) -> Iterator[Honest]:
    """Every honest run that a family has; compiled too on request, which takes a minute."""
    model, steps = subject.model, subject.steps
    yield Honest("eager", nullcontext, steps)
    if all(getattr(module, "_supports_sdpa", True) for module in model.modules()):
        yield Honest("sdpa", lambda: _attention(model, "sdpa"), steps)
    if any(hasattr(module, "_apply_gate") and hasattr(module, "is_transposed") for module in model.modules()):
        for name in ("eager", "grouped_mm"):
            yield Honest(f"experts {name}", lambda name=name: _experts(model, name), steps)  # type: ignore[misc]
        yield Honest("experts in reverse", lambda: functions({"topk": _reversed}), steps)
    if len(steps) > 1:
        yield Honest("one forward", nullcontext, (sum(steps),))
        yield Honest("a longer prefill", nullcontext, (steps[0] + steps[1], *steps[2:]))
        if subject.family not in CUT_BADLY:
            yield Honest("a shorter prefill", nullcontext, (steps[0], sum(steps[1:])))
    yield Honest("float64", lambda: _double(model), steps)
    for name, by in _KERNELS.items():
        yield Honest(name, lambda by=by: functions(by), steps)  # type: ignore[misc]
    if torch.accelerator.is_available():
        yield Honest("accelerator", lambda: _accelerated(model), steps)
    if compiled:
        yield Honest("compiled", lambda: _compiled(model), steps)


@contextmanager
def _attention(model: Any, name: str) -> Iterator[None]:
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def _experts(model: Any, name: str) -> Iterator[None]:
    before = model.config._experts_implementation
    model.set_experts_implementation(name)
    try:
        yield
    finally:
        model.set_experts_implementation(before)


@contextmanager
def _double(model: nn.Module) -> Iterator[None]:
    # A mask's least float64 is -inf in float32, and a row of these is NaN.
    with restored(model), functions({"softmax": _as_given}):
        model.double()
        yield


@contextmanager
def _accelerated(model: nn.Module) -> Iterator[None]:
    with restored(model):
        model.to(torch.accelerator.current_accelerator())
        yield


@contextmanager
def _compiled(model: nn.Module) -> Iterator[None]:
    inner = model.forward
    torch.compiler.reset()  # all families' forwards are one wrapper's: after a few of them nothing more is compiled
    model.forward = torch.compile(inner, dynamic=True)
    try:
        yield
    finally:
        del model.forward


def _halves(linear: Callable[..., torch.Tensor], x: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> Any:
    """A product as the sum of two, each over half of the channels."""
    half = weight.shape[-1] // 2
    if not half:
        return linear(x, weight, bias)
    product = linear(x[..., :half], weight[..., :half]) + linear(x[..., half:], weight[..., half:])
    return product if bias is None else product + bias


def _rows(linear: Callable[..., torch.Tensor], x: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> Any:
    """Every row of the batch by itself."""
    if x.ndim < 2 or not len(x):
        return linear(x, weight, bias)
    return torch.cat([linear(row[None], weight, bias) for row in x])


def _wide(function: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """A sum that is made in float64."""
    if not isinstance(x, torch.Tensor) or x.dtype != torch.float32 or kwargs.get("dtype", x.dtype) != x.dtype:
        return function(x, *args, **kwargs)
    kwargs.pop("dtype", None)
    return function(x.double(), *args, **kwargs).to(x.dtype)


def _as_given(softmax: Callable[..., Any], x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """A softmax in the type of what it gets."""
    return softmax(x, *args, **{**kwargs, "dtype": x.dtype})


def _reversed(topk: Callable[..., Any], x: torch.Tensor, k: int, dim: int = -1, **kwargs: Any) -> Any:
    """What is chosen, the least first: which stands first means nothing."""
    return torch.return_types.topk(tuple(part.flip(dim) for part in topk(x, k, dim, **kwargs)))


_KERNELS: dict[str, dict[str, Around]] = {
    "products in halves": {"linear": _halves},
    "rows alone": {"linear": _rows},
    "sums in float64": dict.fromkeys(("mean", "sum", "softmax", "cumsum"), _wide),
}
