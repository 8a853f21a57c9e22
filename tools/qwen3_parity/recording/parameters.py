"""The parameters of somebody's torch model under the names of the golden's, found by the taps that they make.

A module that gives a tap holds that tap's parameters: under names of its own, stored the other way round, or with those
of the taps beside it. What is not found so is listed without a digest: nobody saw it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import nn

from qwen3_golden import pattern_of, pb, place
from qwen3_golden.networks import Bound
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.compiled import plain_path
from qwen3_parity.recording.held import HeldParameters, held_parameters
from qwen3_parity.recording.layout import sizes_of, split, split_axes, width_of
from qwen3_parity.recording.names import Named
from qwen3_reference.torch_tensors import DTYPES

_LAYER = "{layer}"
_TORCH = {code: dtype for dtype, code in DTYPES.items()}
_HEAD = "lm_head"


def parameters_of(model: nn.Module, case: Case, rows: Sequence[Bound], entries: Mapping[str, Named]) -> HeldParameters:
    """The digests of the golden's parameters as a model holds them, of every tap of `rows` whose module has its own.

    `entries` is the name map by pattern. A type that is wider than the golden's and holds nothing more is recorded as
    the golden's, one that is wider and holds more as it is. A narrower one is another arithmetic, which the taps say,
    so it has no digest but its numbers, and what is not found has none; a bias that a module lacks is not listed.
    """
    modules = {plain_path(path): module for path, module in model.named_modules(remove_duplicate=False)}
    places = {row.pattern: row.module for row in rows if not row.row.HasField("argument") and not row.row.buffer}
    heads = [path for path in modules if f".{path}".endswith(f".{_HEAD}")]
    places |= {_HEAD: heads[0]} if len(heads) == 1 else {_HEAD: places.get("logits", "")}

    def held(golden: pb.Parameter) -> tuple[nn.Module | None, torch.Tensor | None]:
        tap, _, kind = golden.name.rpartition(".")
        pattern = pattern_of(tap)
        layer = next((part for part in tap.split(".") if part.isdecimal()), "")
        module = modules.get(places[pattern].replace(_LAYER, layer)) if pattern in places else None
        return module, None if module is None else _held(module, kind, golden, entries.get(pattern), pattern, case)

    return _listed(case, held)


def parameters_by_path(case: Case, module_at: Callable[[str], nn.Module | None]) -> HeldParameters:
    """As `parameters_of`, of a golden with a graph: its parameters are called after its modules.

    `module_at` gives the model's module of a golden's path, None where it has none.
    """

    def held(golden: pb.Parameter) -> tuple[nn.Module | None, torch.Tensor | None]:
        path, _, kind = golden.name.rpartition(".")
        module = module_at(path)
        return module, None if module is None else _held(module, kind, golden, None, path, case)

    return _listed(case, held)


def _listed(case: Case, held: Callable[[pb.Parameter], tuple[nn.Module | None, torch.Tensor | None]]) -> HeldParameters:
    """The golden's parameters as `held` finds them: the module of each, and its tensor laid out as the golden's."""
    tensors, narrower, unseen = dict[str, torch.Tensor](), dict[str, torch.Tensor](), list[pb.Parameter]()
    for golden in case.golden.parameters:
        module, tensor = held(golden)
        if tensor is not None and tensor.dtype.itemsize >= _TORCH[golden.dtype].itemsize:
            tensors[golden.name] = _as_stored(tensor, golden.dtype)
            continue
        if tensor is not None:
            narrower[golden.name] = tensor
        if tensor is not None or module is None or not golden.name.endswith(".bias") or may_have_bias(module):
            unseen.append(pb.Parameter(name=golden.name, dtype=golden.dtype, shape=golden.shape))
    known = held_parameters(tensors, case.golden, narrower)
    return known._replace(digests=[*known.digests, *unseen] if tensors else [])


def _direct_parameters(module: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters that a module holds itself, read from numbers that are there."""
    parameters = {name: parameter.detach() for name, parameter in module.named_parameters(recurse=False)}
    return {
        name: parameter
        for name, parameter in parameters.items()
        if type(parameter) is torch.Tensor and parameter.dtype in DTYPES and parameter.device.type != "meta"
    }


def may_have_bias(module: nn.Module) -> bool:
    """Whether a module's bias may be there, under some name of its own: where nothing of it can be read, as well."""
    parameters = _direct_parameters(module)
    return not parameters or any(name != "weight" and parameter.ndim == 1 for name, parameter in parameters.items())


def _held(
    module: nn.Module, kind: str, golden: pb.Parameter, entry: Named | None, pattern: str, case: Case
) -> torch.Tensor | None:
    """A module's "weight" or "bias" for a tap, laid out as the golden's; None where it holds none that fits."""
    shape = tuple(golden.shape)
    joined = entry.patterns if entry is not None else (pattern,)
    for tensor in _candidates(module, kind, len(shape)):
        known = isinstance(module, nn.Linear | nn.Embedding)
        for laid in (tensor,) if known or tensor.ndim != 2 else (tensor, tensor.T):
            part = laid if len(joined) == 1 else _part(laid, pattern, entry, case)
            if part is not None and tuple(part.shape) == shape:
                return part
    return None


def _candidates(module: nn.Module, kind: str, axes: int) -> Iterator[torch.Tensor]:
    """What may be a weight or bias, that which is called so first; a single weight has any name."""
    parameters = _direct_parameters(module)
    if kind in parameters:
        yield parameters[kind]
    elif kind == "weight":
        yield from _single(parameters, axes)
    elif (bias := bias_of(module)) is not None:
        yield bias


def bias_of(module: nn.Module) -> torch.Tensor | None:
    """The only vector beside a matrix, whatever its name; None in any other module."""
    parameters = _direct_parameters(module)
    vectors = _single(parameters, 1) if any(item.ndim > 1 for item in parameters.values()) else []
    return vectors[0] if vectors else None


def _single(parameters: Mapping[str, torch.Tensor], axes: int) -> list[torch.Tensor]:
    """The parameter of so many axes that has a name of its own, where there is one."""
    fitting = [item for name, item in parameters.items() if item.ndim == axes and name not in ("weight", "bias")]
    return fitting if len(fitting) == 1 else []


def _part(tensor: torch.Tensor, pattern: str, entry: Named | None, case: Case) -> torch.Tensor | None:
    """The rows of a fused weight or bias that make one of the taps."""
    assert entry is not None
    sizes = sizes_of(case.golden.case.config, 1, 1, 1)
    widths = [width_of(split_axes(name, _axes(name)), sizes) for name in entry.patterns]
    if tensor.shape[0] != sum(widths):
        return None
    rows = split(np.arange(sum(widths)), widths, sizes[entry.groups] if entry.groups else 1)
    return tensor[torch.from_numpy(rows[entry.patterns.index(pattern)]).to(tensor.device)]


def _axes(pattern: str) -> Sequence[str]:
    tap_place = place(pattern.replace(_LAYER, "0"))
    return tap_place.axes if tap_place else ()


def _as_stored(tensor: torch.Tensor, dtype: pb.DType) -> torch.Tensor:
    """A tensor in the golden's type where that holds every number of it."""
    narrow = tensor.to(_TORCH[dtype])
    same = narrow.to(tensor.dtype).equal(tensor) and tensor.dtype.itemsize > narrow.dtype.itemsize
    return narrow if same else tensor
