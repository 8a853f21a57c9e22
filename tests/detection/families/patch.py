"""What a variation or a mistake changes in a live model, as it was again at the end."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

Around = Callable[..., Any]
"""`around(inner, *args, **kwargs)`, in the place of `inner(*args, **kwargs)`."""


@contextmanager
def changed(place: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute with another value."""
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


@contextmanager
def filled(parameter: torch.Tensor, value: torch.Tensor) -> Iterator[None]:
    """A parameter or buffer with other numbers."""
    before = parameter.detach().clone()
    parameter.data.copy_(value)
    try:
        yield
    finally:
        parameter.data.copy_(before)


@contextmanager
def exchanged(module: nn.Module, first: str, second: str) -> Iterator[None]:
    """Two modules within a third, each in the other's place."""
    left, right = module.get_submodule(first), module.get_submodule(second)
    module._modules[first], module._modules[second] = right, left
    try:
        yield
    finally:
        module._modules[first], module._modules[second] = left, right


@contextmanager
def forward_of(module: nn.Module, around: Around) -> Iterator[None]:
    """A module whose forward is run by somebody else."""
    inner = module.forward
    before = module.__dict__.get("forward")
    module.forward = lambda *args, **kwargs: around(inner, *args, **kwargs)
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before


@contextmanager
def arguments_of(module: nn.Module, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """A module whose forward gets other arguments: `change` edits them by name."""
    signature = inspect.signature(type(module).forward)
    itself, *_ = signature.parameters
    rest = next(
        (name for name, parameter in signature.parameters.items() if parameter.kind is parameter.VAR_KEYWORD), ""
    )

    def around(inner: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        named = dict(signature.bind(module, *args, **kwargs).arguments)
        named |= named.pop(rest, {})
        del named[itself]
        change(named)
        return inner(**named)

    with forward_of(module, around):
        yield


class _Replaced(TorchFunctionMode):
    def __init__(self, by: Mapping[str, Around]) -> None:
        super().__init__()
        self.by, self.outside = by, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        around = None if self.outside else self.by.get(getattr(func, "__name__", ""))
        kwargs = kwargs or {}
        return func(*args, **kwargs) if around is None else around(func, *args, **kwargs)


@contextmanager
def functions(by: Mapping[str, Around]) -> Iterator[None]:
    """torch functions by name ("linear", "__add__"), run by somebody else, wherever they are called."""
    with _Replaced(by):
        yield


@contextmanager
def functions_in(module: nn.Module, by: Mapping[str, Around]) -> Iterator[None]:
    """The same, in a module's forward itself alone: not in those of the modules within it."""
    mode = _Replaced(by)

    def inside(inner: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with mode:
            return inner(*args, **kwargs)

    def outside(inner: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        mode.outside += 1
        try:
            return inner(*args, **kwargs)
        finally:
            mode.outside -= 1

    with ExitStack() as stack:
        stack.enter_context(forward_of(module, inside))
        for child in module.children():
            stack.enter_context(forward_of(child, outside))
        yield
