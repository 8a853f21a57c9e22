"""Models that torch.compile has compiled, whole or in parts: a hook inside is no hook any more.

The compiler makes one program of a module and of all below it. A hook there would be compiled, too, or break the
program in pieces, and what is recorded were not what is run. So what goes in and comes out is recorded alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from qwen3_golden import ParityError

_WRAPPED = "_orig_mod."


def compiled_paths(model: nn.Module) -> list[str]:
    """Where a model is compiled: by `torch.compile(module)`, by `module.compile()`, or in a module's forward."""
    return [plain_path(path) for path, module in model.named_modules(remove_duplicate=False) if is_compiled(module)]


def is_compiled(module: nn.Module) -> bool:
    """Whether a call of this module runs what the compiler made."""
    return module._compiled_call_impl is not None or hasattr(module.forward, "_torchdynamo_orig_callable")


def plain_module(model: nn.Module) -> nn.Module:
    """The module that `torch.compile(module)` was given; another one as it is."""
    return dict(model.named_children()).get("_orig_mod", model)


def plain_path(path: str) -> str:
    """A module's path as it was before `torch.compile(module)` put another module around one on the way."""
    return f"{path}.".replace(_WRAPPED, "").removesuffix(".")


def is_inside(path: str, compiled: Sequence[str]) -> bool:
    """Whether a module is below one of these; the path may have {layer} for its number."""
    return any(_below(path.split("."), around.split(".") if around else []) for around in compiled)


def _below(path: list[str], around: list[str]) -> bool:
    pairs = zip(path, around, strict=False)
    return len(path) > len(around) and path != [""] and all(a in (b, "{layer}") for a, b in pairs)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def refuse_compiled_around(model: nn.Module) -> None:
    """Raise `ParityError`: a function around the model is compiled, and would compile the recorder, too."""
    raise ParityError(
        type(model).__name__,
        "it is called inside a function that is compiled, and hooks there would be compiled, too",
        expected="a call of the model, or of torch.compile(model), that is not compiled itself",
        got="a call by the compiler",
        next_step="give record the compiled model, torch.compile(model) or model.compile(), and call that one",
    )
