"""Changing an implementation that is about to run, and taking every change back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import nn

from qwen3_parity.recording.ours.network import EncoderDecoder

ABSENT: Any = object()
IMPLEMENTATION = ("qwen3_encdec", "qwen3_parity.recording.ours")
"""Where the code under test lives: the network, and how it is run on cases."""


class Function(nn.Module):
    """A function in the place of a sub-module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)


class Patch:
    """The implementation under test, open to changes; `undo` takes all of them back.

    `build` loads the model. It is called when `runner` is first asked for, so that a seed can change the loader first.
    """

    def __init__(self, build: Callable[[], EncoderDecoder]) -> None:
        self._build = build
        self._undo: list[Callable[[], object]] = []
        self.touched: set[tuple[int, str]] = set()
        """What was set so far: the `id` of its owner, and its name."""

    @cached_property
    def runner(self) -> EncoderDecoder:
        """The loaded implementation."""
        return self._build()

    @property
    def model(self) -> Any:
        """The loaded `Qwen3ForSeq2SeqLM`."""
        return self.runner.model

    def layers(self, stack: str = "") -> list[Any]:
        """The layers of a stack ("encoder", "decoder"), or of both."""
        stacks = [stack] if stack else ["encoder", "decoder"]
        return [layer for name in stacks for layer in getattr(self.model, name).layers]

    def attentions(self, stack: str = "") -> list[Any]:
        """The attention module of each layer of a stack, or of both."""
        return [getattr(layer, "self_attn", None) or layer.merged_attn for layer in self.layers(stack)]

    def setattr(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module, a class, an instance or a sub-module (for which a function will do)."""
        before = vars(owner).get(name, ABSENT)
        if isinstance(owner, nn.Module):
            for registered in (owner._modules, owner._parameters, owner._buffers):
                before = registered.get(name, before)
            if name in owner._modules and not isinstance(value, nn.Module):
                value = Function(value)
        setattr(owner, name, value)
        self.touched.add((id(owner), name))
        self._undo.append(lambda: delattr(owner, name) if before is ABSENT else setattr(owner, name, before))

    def wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        """Put `around(plain, *args, **kwargs)` in the place of the function, method or sub-module `plain`."""
        plain = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return around(plain, *args, **kwargs)

        self.setattr(owner, name, wrapped)

    def result(self, owner: Any, name: str, change: Callable[[Any], Any]) -> None:
        """Put `change` behind a function, method or sub-module: its result goes through it."""
        self.wrap(owner, name, lambda plain, *args, **kwargs: change(plain(*args, **kwargs)))

    def function(self, plain: Callable[..., Any], around: Callable[..., Any]) -> None:
        """Put `around(plain, *args, **kwargs)` in the place of a function, wherever the implementation imported it."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return around(plain, *args, **kwargs)

        for module in [m for name, m in sys.modules.items() if name.startswith(IMPLEMENTATION)]:
            for name in [name for name, value in vars(module).items() if value is plain]:
                self.setattr(module, name, wrapped)

    def on_input(self, module: nn.Module, change: Callable[[Any], Any]) -> None:
        """Give a module `change(x)` for its first argument: what a recorder sees as its input, too."""
        hook = module.register_forward_pre_hook(lambda _module, args: (change(args[0]), *args[1:]))
        self._undo.append(hook.remove)

    @torch.no_grad()
    def change(self, parameter: torch.Tensor, values: Any) -> None:
        """Overwrite a parameter in place (a tied one changes everywhere) with `values` that broadcast to its shape."""
        before = parameter.detach().clone()
        parameter.copy_(torch.as_tensor(values).expand_as(parameter))
        self._undo.append(lambda: parameter.data.copy_(before))

    def undo(self) -> None:
        """Take every change back, the last one first."""
        while self._undo:
            self._undo.pop()()
