"""Every value that has a name while a transformers model runs: what modules give, and what attention gets and gives.

Names are paths of modules. The hooks see eager runs and those of `torch.export`, whose graph then gives the values out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers.modeling_utils import AttentionInterface

from qwen3_reference.graph.dense import is_loop
from qwen3_reference.graph.pooled import inside
from qwen3_reference.graph.words import named_call

Key = tuple[str, int]
"""A tap's name and the step it belongs to."""


class Taps:
    """The values seen so far by name and step, in the order in which they came; copies, so that nobody changes them."""

    def __init__(self) -> None:
        self.values: dict[Key, torch.Tensor] = {}
        self._step = 0
        self._calls = Counter[tuple[str, str]]()

    def clear(self) -> None:
        """Forget every value, as before the first step."""
        self.values.clear()
        self.begin(0)

    def begin(self, step: int) -> None:
        """What comes now belongs to this step."""
        self._step = step
        self._calls.clear()

    def add(self, name: str, value: object) -> None:
        """Keep a value that is a tensor of real numbers under a name; anything else is passed over."""
        if isinstance(value, torch.Tensor) and not value.is_complex():
            self.values[name, self._step] = value.clone()

    def numbered(self, path: str, kind: str = "") -> str:
        """A path as it is at its first call in a step, with "#n" behind it at the n-th."""
        self._calls[path, kind] += 1
        count = self._calls[path, kind]
        return path if count == 1 else f"{path}#{count}"


def parts(output: object) -> list[object]:
    """A module's output as its places: a tensor alone, or the members of a tuple, a list or a ModelOutput."""
    if isinstance(output, Mapping):
        return list(output.values())
    return list(output) if isinstance(output, tuple | list) else [output]


@contextmanager
def watched(model: nn.Module, taps: Taps) -> Iterator[None]:
    """Inside, whatever the modules of a model give goes to `taps`, and their attention's queries, keys and results."""
    named = dict(inside(model).named_modules())
    # What runs within experts, how often and on how many rows, is their implementation's affair.
    experts = tuple(f"{path}." for path, module in named.items() if _is_experts(module))
    paths = {module: path for path, module in named.items() if path and not path.startswith(experts)}

    def gave(path: str, _module: nn.Module, args: tuple[object, ...], named: dict[str, Any], output: object) -> None:
        name = taps.numbered(named_call(path, args, named))
        for place, value in enumerate(parts(output)):
            taps.add(f"{name}[{place}]" if place else name, value)

    with ExitStack() as stack:
        for module, path in paths.items():
            stack.callback(module.register_forward_hook(partial(gave, path), with_kwargs=True).remove)
        stack.enter_context(_attention(paths, taps))
        yield


def _is_experts(module: nn.Module) -> bool:
    """Whether a module is one whose forward loops over experts, or transformers exchanges for an implementation."""
    exchanged = all(hasattr(module, name) for name in ("has_gate", "is_transposed", "is_concatenated"))
    return exchanged or is_loop(type(module).forward)


@contextmanager
def _attention(paths: Mapping[nn.Module, str], taps: Taps) -> Iterator[None]:
    """Every modeling file looks its attention function up here, whatever it is called there."""
    plain = AttentionInterface.get_interface

    def looked_up(self: AttentionInterface, *args: Any, **named: Any) -> Callable[..., Any]:
        return partial(attend, plain(self, *args, **named))

    def attend(
        function: Callable[..., Any],
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *args: Any,
        **named: Any,
    ) -> Any:
        if module not in paths:
            return function(module, query, key, value, *args, **named)
        name = taps.numbered(paths[module], "attention")
        for part, tensor in (("query", query), ("key", key), ("value", value)):
            taps.add(f"{name}.{part}", tensor)
        result = function(module, query, key, value, *args, **named)
        for part, output in zip(("context", "probs"), parts(result), strict=False):
            taps.add(f"{name}.{part}", output)
        return result

    AttentionInterface.get_interface = looked_up  # type: ignore[method-assign]
    try:
        yield
    finally:
        AttentionInterface.get_interface = plain  # type: ignore[method-assign]
