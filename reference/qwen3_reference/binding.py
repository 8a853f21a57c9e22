"""One recorder for every stack of modules: hooks made from the module column of golden/networks.

Nothing here knows a model class. Tensors are handed over by reference, in execution order; the model computes what it
would have computed, bit for bit. What an attention computes between its modules no hook can see: whoever attends hands
it over with `emit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import signature
from itertools import count
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from qwen3_golden import ParityError
from qwen3_golden.networks import Bound, bound

Sink = Callable[[str, torch.Tensor], None]
AS_NAMED: Mapping[str, str] = MappingProxyType({})
"""The modules of a stack that has them where golden/networks says."""

_LAYER = "{layer}"
_ENCODER_HALF: ContextVar[bool] = ContextVar("encoder_half", default=False)


@dataclass(frozen=True)
class Site:
    """A module that is being recorded: the wanted taps by what they are called inside it ("query", "scores", …)."""

    sink: Sink
    encoder_length: int
    names: dict[str, str] = field(default_factory=dict)

    def emit(self, inside: str, value: torch.Tensor) -> None:
        """Hand over a tap, if its network has it and it is wanted."""
        if inside in self.names:
            self.sink(self.names[inside], value)


SITES: dict[nn.Module, Site] = {}


def emit(module: nn.Module, inside: str, value: torch.Tensor) -> None:
    """Hand over a tap that no hook can see; `module` is an attention that is being recorded, else nothing happens.

    `inside` is the row's `inside` in golden/networks, or the name of a module that the attention does not have.
    """
    site = SITES.get(module)
    if site is not None:
        site.emit(inside, value)


@contextmanager
def encoder_half() -> Iterator[None]:
    """Inside, k_proj, v_proj, k_norm and rotary_emb are recorded as the merged attention's encoder half."""
    token = _ENCODER_HALF.set(True)
    try:
        yield
    finally:
        _ENCODER_HALF.reset(token)


def everything(_name: str) -> bool:
    """The ordinary `records`: every tap."""
    return True


def _part(value: Any, number: int) -> Any:
    """What a module gives, or one of several: of a tuple, or of named ones."""
    values = tuple(value.values()) if isinstance(value, Mapping) else value
    return values[number] if isinstance(values, tuple) else value


def _reader(module: nn.Module, tap: Bound) -> Callable[[Any, Any, Any], Any]:
    """How a row's tensor is had from a module's arguments, those by name, and its result."""
    row = tap.row
    if row.HasField("buffer"):
        return lambda _args, _named, _result: module.get_buffer(row.buffer)
    if not row.HasField("argument"):
        return lambda _args, _named, result: _part(result, row.output)
    number, parameters = row.argument, dict(enumerate(signature(module.forward).parameters))

    def argument(args: Any, named: Any, _result: Any) -> Any:
        if number < len(args):
            return args[number]
        name = parameters.get(number)  # unknown where a method of any arguments stands in for the forward
        return named[name] if name in named else tuple(named.values())[number - len(args)]

    return argument


Before = Callable[[nn.Module, Any, Any], None]
After = Callable[[nn.Module, Any, Any, Any], None]


def hooked(
    module: nn.Module,
    *,
    before: Before | None = None,
    after: After | None = None,
    first: bool = False,
    always: bool = False,
) -> Callable[[], object]:
    """Have `before(module, args, named)` called ahead of each call of a module, `after(…, result)` behind it.

    What it gives undoes that. `first`: ahead of all other hooks; `always`: behind an exception, too, with None. Of a
    module that was compiled in place, by `module.compile()`, the call of what the compiler made is hooked from outside:
    hooks of its own would be compiled, too, or break the program in pieces.
    """
    if module._compiled_call_impl is None:
        undo = ExitStack()
        if before is not None:
            undo.callback(module.register_forward_pre_hook(before, with_kwargs=True, prepend=first).remove)
        if after is not None:
            undo.callback(module.register_forward_hook(after, with_kwargs=True, always_call=always).remove)
        return undo.close
    plain = module._compiled_call_impl

    def call(*args: Any, **named: Any) -> Any:
        result = None
        if before is not None:
            before(module, args, named)
        try:
            result = plain(*args, **named)
        except BaseException:
            if after is not None and always:
                after(module, args, named, None)
            raise
        if after is not None:
            after(module, args, named, result)
        return result

    module._compiled_call_impl = call
    return lambda: setattr(module, "_compiled_call_impl", plain)


class _Stack:
    """A stack's modules by the paths of golden/networks; `modules` as in `attach`."""

    def __init__(self, stack: nn.Module, rows: tuple[Bound, ...], modules: Mapping[str, str]) -> None:
        self.modules = modules
        self.named_modules = dict(stack.named_modules(remove_duplicate=False))
        for path, theirs in modules.items():
            known = any(f"{tap.module}.".startswith(f"{path}.") for tap in rows)
            alike = (_LAYER in path) == (_LAYER in theirs)
            if not known or not alike or theirs.replace(_LAYER, "0") not in self.named_modules:
                raise ParityError(
                    f"modules[{path!r}]",
                    "the model has no such module" if known and alike else "the network has no module below this path",
                    expected="a path of golden/networks and where the model has it, each with {layer} where it has one",
                    got=f"{path!r}: {theirs!r}",
                    next_step="compare with the names of model.named_modules()",
                )
        layered = [tap.module for tap in rows if _LAYER in tap.module]
        self.layers = next(n for n in count() if all(self.path(path, n) not in self.named_modules for path in layered))

    def path(self, path: str, layer: int) -> str:
        """Where the stack has a module: the longest path that `modules` names counts."""
        begins = [prefix for prefix in self.modules if f"{path}.".startswith(f"{prefix}.")]
        longest = max(begins, key=len, default="")
        theirs = self.modules[longest] + path[len(longest) :] if begins else path
        return theirs.replace(_LAYER, str(layer))


@contextmanager
def attach(
    stack: nn.Module,
    network: str,
    sink: Sink,
    *,
    modules: Mapping[str, str] = AS_NAMED,
    rows: tuple[Bound, ...] | None = None,
    records: Callable[[str], bool] = everything,
    encoder_length: int = 0,
) -> Iterator[None]:
    """Record `stack` inside the `with`: each tap that it `records` goes to `sink(name, tensor)` in execution order.

    `network` is the stack's name in golden/networks: "encoder", "decoder", "pre_norm", "post_norm". `modules` says
    which modules the stack has elsewhere, each with all below it: `{"layers": "h", "layers.{layer}.self_attn.q_proj":
    "h.{layer}.attn.query"}`. `rows` take the place of the network's, for a stack that has its tensors elsewhere.
    `encoder_length` is how many of the keys given to a decoder's attention are the encoder's.
    What lives inside attention is recorded only where somebody hands it to `emit`; logits are the caller's. A row whose
    module the stack does not have is not recorded. Raises `ParityError` for a path in `modules` that leads from or to
    nowhere.
    """
    rows = bound(network) if rows is None else rows
    layout = _Stack(stack, rows, modules)
    running: list[bool] = []  # a module between layers, such as an embedding, may serve another stack as well

    def hook(module: nn.Module, name: str, tap: Bound) -> Any:
        read, half, inner = _reader(module, tap), tap.row.encoder_half, _LAYER in tap.module

        def hand_over(_module: nn.Module, args: Any, named: Any, result: Any = None) -> None:
            if _ENCODER_HALF.get() == half and (half or inner or running):
                sink(name, read(args, named, result))

        return hooked(module, before=hand_over) if tap.row.HasField("argument") else hooked(module, after=hand_over)

    with ExitStack() as undo:
        undo.callback(hooked(stack, before=lambda *_: running.append(True)))
        for tap in rows:
            for layer in range(layout.layers if _LAYER in tap.module else 1):
                name, path = tap.pattern.replace(_LAYER, str(layer)), layout.path(tap.module, layer)
                around, _, last = path.rpartition(".")
                inside = tap.row.inside or (last if path not in layout.named_modules else "")
                module = layout.named_modules.get(path if tap.row.inside or not inside else around)
                if module is None or not records(name):
                    continue
                if not inside:
                    undo.callback(hook(module, name, tap))
                elif module not in SITES:
                    SITES[module] = Site(sink, encoder_length)
                    undo.callback(SITES.pop, module)
                if inside:
                    SITES[module].names[inside] = name
        undo.callback(hooked(stack, after=lambda *_: running.clear(), always=True))
        yield
