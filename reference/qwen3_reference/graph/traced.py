"""A transformers model run on inputs and exported: every tap's numbers and axes, and the graph behind them."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from qwen3_golden import ParityError
from qwen3_reference.graph.agreement import farthest
from qwen3_reference.graph.axes import axes_of, in_order, shapes_of
from qwen3_reference.graph.dense import AllShown
from qwen3_reference.graph.export import exported
from qwen3_reference.graph.pooled import inside
from qwen3_reference.graph.reason import short
from qwen3_reference.graph.request import Inputs, longer, sides, wider
from qwen3_reference.graph.settings import unmoved, unstretched
from qwen3_reference.graph.steps import MODEL, Steps
from qwen3_reference.graph.taps import Key, Taps, watched
from qwen3_spec.arithmetic import Array
from qwen3_spec.graph import Graph

_NEAR, _WRONG = 1e-4, 1e-2
"""How far from the run, in parts of a tap's RMS, a bfloat16 export may be (else a constant was rounded), and any."""


@dataclass(frozen=True)
class Traced:
    """Every tap of a run by name and step, in execution order, its axes, and the graph; `dtype` is the export's."""

    values: Mapping[Key, torch.Tensor]
    axes: Mapping[Key, list[str]]
    graph: Graph
    dtype: torch.dtype


def traced(model: nn.Module, inputs: Inputs, steps: tuple[int, ...]) -> Traced:
    """Run a model and export it, within `as_reference`; inputs and steps are those of `completed`.

    Raises `ParityError` for a model that does not run on them, that torch cannot export, or NumPy computes otherwise.
    """
    values, named = run(model, inputs, steps), {f"input.{name}": value for name, value in inputs.items()}
    first, (batch, lengths) = {(name, 0): value for name, value in named.items()}, _sizes(inputs, steps)
    grown, shapes = list[Mapping[Key, torch.Tensor]](), [shapes_of(first | values)]
    for variant, cut in ((wider(inputs), steps), (longer(inputs), (steps[0] + 1, *steps[1:]))):
        grown.append({(f"input.{name}", 0): value for name, value in variant.items()} | run(model, variant, cut))
        shapes.append(shapes_of(grown[-1]))
    axes = axes_of(shapes[0], shapes[1], shapes[2], batch, lengths)
    axes = in_order(axes, first | values, grown[0], batch, lengths)
    graph, dtype = _graph(model, inputs, steps, values)
    return Traced(values, axes, graph, dtype)


def _sizes(inputs: Inputs, steps: tuple[int, ...]) -> tuple[int, frozenset[int]]:
    (name, _), *encoder = sides(inputs).items()
    return inputs[name].shape[0], frozenset({steps[0], *(length for _, length in encoder)})


def run(model: nn.Module, inputs: Inputs, steps: tuple[int, ...]) -> dict[Key, torch.Tensor]:
    """Every tap of a model's forwards, as it is; raises `ParityError` for inputs that it does not run on."""
    taps = Taps()
    with torch.no_grad(), watched(model, taps):
        try:
            Steps(model, steps, taps)(inputs)
        except Exception as error:  # whatever a model raises
            raise _refusal(model, "the model does not run on these inputs", "a forward", error) from error
    return taps.values


def _graph(
    model: nn.Module, inputs: Inputs, steps: tuple[int, ...], values: Mapping[Key, torch.Tensor]
) -> tuple[Graph, torch.dtype]:
    """The first export that describes the run: in bfloat16, where casts are nodes, with free sizes, if it can be."""
    model_dtype = dtype_of(model)
    last: Exception | None = None
    for dtype in dict.fromkeys((torch.bfloat16 if model_dtype == torch.float32 else model_dtype, model_dtype)):
        for free in (True, False) if len(steps) == 1 and not _has_states(model, values) else (False,):
            try:
                graph = _exported(model, inputs, steps, dtype, free=free)
            except Exception as error:  # torch raises whatever it comes by
                last = error
                continue
            if list(graph.taps) != list(values):
                last = ValueError("the export calls other modules than the run")
                continue
            key, far = _distance(model, graph, inputs, values) if model_dtype == torch.float32 else (("", 0), 0.0)
            if far <= (_NEAR if dtype != model_dtype else _WRONG):
                return graph, dtype
            last = ParityError(
                f"{type(model).__name__}: {key[0]} (step {key[1]})",
                "the exported graph computes something else than the model",
                expected=f"within {_WRONG:g} of its RMS",
                got=f"{far:.3g}",
                next_step="report this: the graph or NumPy's ops are wrong, not your model",
                fault="harness bug",
            )
    if isinstance(last, ParityError):
        raise last
    assert last is not None
    raise _refusal(model, "torch cannot export this model", "a graph of ops that NumPy has", last) from last


def _exported(model: nn.Module, inputs: Inputs, steps: tuple[int, ...], dtype: torch.dtype, *, free: bool) -> Graph:
    taps, module = Taps(), _in(model, dtype)
    converted = {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}
    auto = {name: dict.fromkeys(range(value.ndim), torch.export.Dim.AUTO) for name, value in inputs.items()}
    places = [int(value.max()) + 1 for name, value in inputs.items() if name.endswith("position_ids")]
    longest = max(*sides(inputs).values(), *places, 0)
    with (
        watched(module, taps),
        unstretched(module, longest),
        unmoved(),
        AllShown(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # torch's and the model's, of tracing
        sizes = (auto,) if free else None
        root = MODEL if module is inside(module) else f"{MODEL}.{MODEL}"
        return exported(Steps(module, steps, taps), converted, sizes, keys=lambda: list(taps.values), root=root)


def dtype_of(model: nn.Module) -> torch.dtype:
    """The float type of most of a model's parameters; some keep a few in float32."""
    sizes = Counter[torch.dtype]()
    for parameter in model.parameters():
        if parameter.is_floating_point():
            sizes[parameter.dtype] += parameter.numel()
    return sizes.most_common(1)[0][0] if sizes else torch.float32


def _in(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The model, or a copy with other parameters; buffers stay, as in a model loaded in that dtype."""
    every = dict[int, Any]()
    for parameter in model.parameters() if dtype != dtype_of(model) else ():
        if parameter.is_floating_point() and parameter.dtype != dtype:
            every[id(parameter)] = nn.Parameter(parameter.detach().to(dtype), requires_grad=False)
    return copy.deepcopy(model, every) if every else model


def _has_states(model: nn.Module, values: Mapping[Key, torch.Tensor]) -> bool:
    """Whether layers keep more than keys and values: chunk rules are loops that free sizes hardly get through."""
    kinds = getattr(getattr(model, "config", None), "layer_types", None) or ()
    stateful = any(name.startswith("cache.") and not name.endswith(("keys", "values")) for name, _ in values)
    return stateful or "linear_attention" in kinds


def _distance(model: nn.Module, graph: Graph, inputs: Inputs, values: Mapping[Key, torch.Tensor]) -> tuple[Key, float]:
    arrays = dict(arrays_of(model, inputs))
    try:
        return farthest(graph, arrays, values)
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise ParityError(
            type(model).__name__,
            "NumPy cannot compute the exported graph",
            expected="every op as torch means it",
            got=short(error),
            next_step="report this: NumPy's ops are wrong, not your model",
            fault="harness bug",
        ) from error


def arrays_of(model: nn.Module, inputs: Inputs) -> Iterator[tuple[str, Array]]:
    """Inputs and parameters by name as NumPy's arrays, float32 where the model has a narrower float."""
    every = {**inputs, **dict(inside(model).named_parameters(remove_duplicate=False))}
    for name, value in every.items():
        value = value.detach()
        yield name, np.asarray((value.float() if value.is_floating_point() else value).numpy())


def _refusal(model: nn.Module, rule: str, expected: str, error: Exception) -> ParityError:
    return ParityError(
        type(model).__name__,
        rule,
        expected=expected,
        got=f"{type(error).__name__}: {short(error)}",
        next_step="another transformers or torch may do it; the reason is theirs",
    )
