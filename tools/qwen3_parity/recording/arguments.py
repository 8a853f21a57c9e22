"""What a torch model's forward is called with: the inputs of a case, by the names of its arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch
from torch import nn

from qwen3_golden import Array, ParityError
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.compiled import plain_module

ALIASES: Mapping[str, tuple[str, ...]] = {
    "input_ids": ("ids", "tokens", "token_ids", "input_tokens", "idx", "inputs", "input", "x"),
    "inputs_embeds": ("embeds", "embeddings", "input_embeds", "hidden_states", "inputs", "input", "x"),
    "position_ids": ("positions", "pos_ids"),
    "attention_mask": (),
}
"""An input of a case, as Hugging Face calls it -> what else an argument is called that can be nothing but this.

A `mask` or `attn_mask` may be padding or causal, bool or added, and True may mean either, so it is no other name of
`attention_mask`; a model's first argument is its ids or embeddings whatever it is called.
"""

_OPEN: Mapping[str, tuple[str, ...]] = {
    "attention_mask": ("mask", "attn_mask", "padding_mask", "key_padding_mask", "src_key_padding_mask", "causal_mask"),
    "position_ids": ("pos", "position", "input_pos", "start_pos", "offset"),
}
"""An input -> arguments that may be it in a form of their own: beside one of these, **kwargs do not stand for it."""

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def run(model: nn.Module, case: Case) -> Any:
    """Call a model on all slots of a case; see `arguments_of`."""
    args, named = arguments_of(model, case)
    with torch.no_grad():
        return model(*args, **named)


def arguments_of(model: nn.Module, case: Case) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a forward on all slots of a case, by place and by name, as the forward names them.

    An input for which there is no argument is left out where a model without it computes the same: a mask that hides
    nothing from a token, positions that count from 0 or that the mask implies. Raises `ParityError` for any other one,
    and for an argument without a default that no input is called like.
    """
    inputs, parameters = case.inputs, _parameters(model)
    first = next((name for name in ("input_ids", "inputs_embeds") if name in inputs), next(iter(inputs)))
    targets = _targets(first, list(inputs), parameters)
    by_keyword = [name for name in inputs if name not in targets and _may_be_named(name, parameters)]
    _refuse_lacking(model, case, parameters, targets, [*targets, *by_keyword])
    values = {parameter.name: inputs[name] for name, parameter in targets.items()}
    only = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.VAR_POSITIONAL)]
    last = max((number for number, item in enumerate(only) if item.name in values), default=-1)
    args = [values.get(item.name, item.default) for item in only[: last + 1]]
    named = {item.name: values[item.name] for item in parameters if item.kind in _NAMED and item.name in values}
    return args, named | {name: inputs[name] for name in by_keyword}


def _refuse_lacking(
    model: nn.Module,
    case: Case,
    parameters: Sequence[Parameter],
    targets: Mapping[str, Parameter],
    taken: Collection[str],
) -> None:
    """Raise `ParityError` where an input that matters is not taken, or an argument without a default has no input."""
    needless = _needless(case, taken)
    if missing := [name for name in case.inputs if name not in taken and name not in needless]:
        rule = f"it has no argument for {' and '.join(missing)}, and without the run is another"
        raise _refused(model, case, rule, parameters)
    filled = {item.name for item in targets.values()}
    must = [item.name for item in parameters if item.kind in (*_POSITIONAL, *_NAMED) and item.default is item.empty]
    if lacking := [name for name in must if name not in filled]:
        rule = f"no input of a case is called {' and '.join(lacking)}, and there is no default"
        raise _refused(model, case, rule, parameters)


def _parameters(model: nn.Module) -> list[Parameter]:
    try:
        return list(signature(plain_module(model).forward).parameters.values())
    except (TypeError, ValueError):  # not written in Python
        return [Parameter("args", Parameter.VAR_POSITIONAL)]


def _targets(first: str, names: Sequence[str], parameters: Sequence[Parameter]) -> dict[str, Parameter]:
    """The argument of each input that has one; `first` are the ids or embeddings, which a model's first argument is."""
    by_name = {item.name: item for item in parameters if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)}
    targets = dict[str, Parameter]()
    for name in names:
        matches = [by_name[item] for item in (name, *ALIASES.get(name, ())) if item in by_name]
        if matches:
            targets[name] = matches[0]
    leading = parameters[0] if parameters else None
    if first in targets or leading is None or leading.kind not in (*_POSITIONAL, leading.VAR_POSITIONAL):
        return targets
    if leading.kind == leading.VAR_POSITIONAL and any(item.kind == item.VAR_KEYWORD for item in parameters):
        return targets  # what takes anything by name hands it on by name
    aliases = (first, *ALIASES.get(first, ()))
    others = {alias for name, more in ALIASES.items() for alias in (name, *more) if alias not in aliases}
    return targets if leading.name in others else {first: leading, **targets}


def _may_be_named(name: str, parameters: Sequence[Parameter]) -> bool:
    """Whether **kwargs stand for an input, so that it is given by its name."""
    anything = any(item.kind == item.VAR_KEYWORD for item in parameters)
    return anything and all(item.name not in _OPEN.get(name, ()) for item in parameters)


def _needless(case: Case, taken: Collection[str]) -> set[str]:
    """The inputs without which a model computes the same, given the inputs that it takes."""
    arrays, needless = case.arrays, set[str]()
    mask, positions = arrays.get("attention_mask"), arrays.get("position_ids")
    if any(array is not None and array.ndim != 2 for array in (mask, positions)):  # of heads, or of several kinds
        return needless
    tokens: Array = np.ones(arrays[case.ids].shape[:2], bool) if mask is None else mask != 0
    behind = np.logical_or.accumulate(tokens[:, ::-1], axis=1)[:, ::-1] if case.is_causal else True
    if "mask" not in arrays and not (~tokens & behind).any():  # a causal model never sees what only follows
        needless.add("attention_mask")
    if positions is not None and positions.shape == tokens.shape:
        counted = [np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)]
        if "attention_mask" in taken:
            counted.append(np.cumsum(tokens, axis=1) - 1)
        if any((positions == item)[tokens].all() for item in counted):
            needless.add("position_ids")
    return needless


def _refused(model: nn.Module, case: Case, rule: str, parameters: Sequence[Parameter]) -> ParityError:
    known = ", ".join(f"{name} (or {', '.join(ALIASES[name])})" if ALIASES.get(name) else name for name in case.inputs)
    theirs = ", ".join(str(item).partition(":")[0].partition("=")[0].strip() for item in parameters)
    return ParityError(
        f"{type(plain_module(model)).__name__}.forward on {case.name}",
        rule,
        expected=f"arguments that are called {known}",
        got=f"forward({theirs})",
        next_step="give a module whose forward(self, input_ids, attention_mask, position_ids) calls your model by its "
        "own names, as self.model(input_ids, mask=attention_mask.bool()): attention_mask is 1 for a token. What takes "
        "no padding runs a case without it, as decoder/plain",
    )
