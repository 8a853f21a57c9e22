"""What a transformers model hands to its attention function and gets from it, as queries, keys and probabilities."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

Take = Callable[[nn.Module, Mapping[str, object], str], None]
"""`take(module, values, function)`: query, key, value, context and probs of a call, and what the function is called."""


@contextmanager
def attention_functions(take: Take) -> Iterator[None]:
    """Inside, `take` gets every call of an attention function that a model of transformers looks up by its name.

    The function is run as it is. Nothing happens where transformers is not there, or keeps its functions elsewhere.
    """
    interface = _interface()
    if interface is None:
        yield
        return
    method = "get_interface" if hasattr(interface, "get_interface") else "__getitem__"  # of transformers 4
    plain = getattr(interface, method)

    def looked_up(self: Any, *args: Any, **named: Any) -> Callable[..., Any]:
        name = str(args[0] if args else named.get("attn_implementation", ""))
        return partial(attend, plain(self, *args, **named), name)

    def attend(
        function: Callable[..., Any],
        name: str,
        module: nn.Module,
        query: Any,
        key: Any,
        value: Any,
        *args: Any,
        **named: Any,
    ) -> Any:
        operands = {"query": query, "key": key, "value": value}
        values: dict[str, object] = {
            part: operand.detach().clone() for part, operand in operands.items() if isinstance(operand, torch.Tensor)
        }  # a cache of fixed length is written to in place
        result = function(module, query, key, value, *args, **named)
        parts = result if isinstance(result, tuple | list) else (result,)
        take(module, values | dict(zip(("context", "probs"), parts, strict=False)), name)
        return result

    setattr(interface, method, looked_up)
    try:
        yield
    finally:
        setattr(interface, method, plain)


def _interface() -> Any:
    """The class that every modeling file asks for an attention function, None where there is none."""
    utils = sys.modules.get("transformers.modeling_utils")
    return getattr(utils, "AttentionInterface", None)
