"""Where a torch model has the modules that a golden with a graph names: by their paths, or by a name map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature

from torch import nn

from qwen3_golden import ParityError
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.compiled import is_inside, plain_module
from qwen3_parity.recording.graph_names import Entry, each_once, in_layers
from qwen3_parity.recording.graph_taps import is_inside_attention, modules_of, names_of
from qwen3_parity.recording.left_out import listed
from qwen3_parity.recording.prefixes import Prefixes, nearest


def places_in_map(
    entries: Sequence[Entry], modules: Mapping[str, nn.Module], case: Case, compiled: Sequence[str]
) -> list[tuple[str, Entry]]:
    """The modules of a name map, each with the entry of its layer; raises `ParityError` for one that is not there."""
    mapped = list[tuple[str, Entry]]()
    for entry in entries:
        layers = in_layers(entry, modules, case.golden)
        if not layers:
            raise ParityError(
                entry.key,
                "the model has no such module, or the golden no such tap in its layers",
                expected=f"a path of model.named_modules(); the nearest are {nearest([entry.named.path], modules)}",
                got=entry.named.path,
                next_step="correct the path, its layer's number written {layer}",
            )
        for path, _ in layers:
            _refuse_missing_input(entry, modules[path])
        hidden = [path for path, _ in layers if is_inside(path, compiled)]
        if hidden and entry.named.patterns:
            raise ParityError(
                entry.key,
                "this module is inside of one that is compiled, where no hook can stand",
                expected="modules that are compiled themselves, whole, or not at all",
                got=f"torch.compile of {listed(compiled)}",
                next_step="leave it out of the map, or record the model before it is compiled, with the same map",
            )
        mapped += layers
    return [*each_once(mapped)]


def _refuse_missing_input(entry: Entry, module: nn.Module) -> None:
    """Raise `ParityError` where a map names an input by a number that the module's forward does not have."""
    parameters = list(signature(plain_module(module).forward).parameters.values())
    open_ended = any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in parameters)
    if entry.named.end == "input" and entry.named.number >= len(parameters) and not open_ended:
        raise ParityError(
            entry.key,
            "the module has no such input",
            expected=f"one of {len(parameters)} inputs: {', '.join(parameter.name for parameter in parameters)}",
            got=f"number {entry.named.number}",
            next_step="count the arguments of its forward from 0",
        )


def places_of(
    model: nn.Module,
    case: Case,
    modules: Mapping[str, nn.Module],
    mapped: Sequence[tuple[str, Entry]],
    compiled: Sequence[str],
    prefixes: Prefixes,
) -> dict[str, str]:
    """Where the model has each module that the golden names, without what a map leaves out.

    Raises `ParityError` when there is none of them, and nothing that is compiled.
    """
    paths = wanted_paths(case)
    out = {path for path, entry in mapped if not entry.named.patterns}
    places = {path: place for path in paths if (place := prefixes.path(path, modules)) is not None and place not in out}
    if not any(places.values()) and not compiled and not out:
        module_paths = [path for path in paths if not is_inside_attention(path)]
        raise ParityError(
            type(model).__name__,
            "none of its modules is called as one of the golden's",
            expected=f"{', '.join(module_paths[:4]) or 'modules'} and the like, or names={{…}}",
            got=f"the nearest are {nearest(module_paths, modules)}",
            next_step="give a name map: record(model, case, {'their.{layer}.path': 'model.layers.{layer}.mlp'})",
        )
    return places


def wanted_paths(case: Case) -> list[str]:
    """The paths of the golden's modules, those around what attention gets and gives among them."""
    taps = modules_of(names_of(case.golden))
    return list(dict.fromkeys([*taps, *(path.rpartition(".")[0] for path in taps if is_inside_attention(path))]))
