"""A torch model of somebody's own, recorded on a golden with a graph: hooks on the modules that the golden names.

A module is found by its path, below whatever prefix the model has, or by a name map. What it gives is the tap of its
path; nothing here knows a network.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qwen3_golden import ParityError, pattern_of, pb, selected
from qwen3_golden.networks import Bound
from qwen3_golden.origins import Origin
from qwen3_parity.recording.attention_functions import attention_functions
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.compiled import compiled_paths, is_inside, plain_module, plain_path
from qwen3_parity.recording.forwards import Forwards
from qwen3_parity.recording.graph_names import Entry, graph_map, is_all, parts_of_fused
from qwen3_parity.recording.graph_places import places_in_map, places_of, wanted_paths
from qwen3_parity.recording.graph_steps import wanted_of
from qwen3_parity.recording.graph_taps import called, module_of, names_of
from qwen3_parity.recording.hugging_face import row_of
from qwen3_parity.recording.left_out import in_words, inside_compiled
from qwen3_parity.recording.names import Names
from qwen3_parity.recording.origins import Lines
from qwen3_parity.recording.parameters import parameters_by_path
from qwen3_parity.recording.prefixes import prefixes_of
from qwen3_parity.recording.record import ARITHMETIC, no_such_tap
from qwen3_parity.recording.recorder import Recorder, elements, recorder
from qwen3_parity.recording.tap_axes import width_of
from qwen3_reference.binding import attach, hooked
from qwen3_reference.caches import CACHE, states
from qwen3_reference.graph.words import RESULTS, named_call

_BACKENDS = {"eager": pb.EAGER, "sdpa": pb.SDPA, "flex_attention": pb.FLEX}


@contextmanager
def record_modules(
    model: nn.Module, case: Case, names: Names | None = None, path: Path | None = None, taps: Sequence[str] = ()
) -> Iterator[Recorder]:
    """See `qwen3_parity.record`; `case` is of mode GRAPH, `taps` are globs."""
    selected_taps = {name for name in names_of(case.golden) if selected(name, taps)}
    if not selected_taps:
        raise no_such_tap(case.golden, taps)
    entries, compiled = graph_map(names, case.golden), compiled_paths(model)
    modules = _by_path(model)
    mapped = places_in_map(entries, modules, case, compiled)
    prefixes = prefixes_of(wanted_paths(case), modules)
    places = {} if is_all(entries) else places_of(model, case, modules, mapped, compiled, prefixes)
    outputs = ((at, entry.named.patterns) for at, entry in mapped if entry.named.end == "output")
    by_map = {patterns[0]: at for at, patterns in outputs if len(patterns) == 1}

    def module_at(its_path: str) -> nn.Module | None:
        place = by_map.get(its_path) if by_map else prefixes.path(its_path, modules)
        return None if place is None else modules[place]

    with recorder(case, path, type(plain_module(model)).__name__) as recording, ExitStack() as undo:
        recording.stored = stored_of(model)
        recording.backend = pb.COMPILED if compiled else recording.backend
        inside = {name: place for name, place in places.items() if is_inside(place, compiled)}
        run = _Run(recording, selected_taps, places, modules)
        run.hook([place for name, place in places.items() if name not in inside], undo)
        run.hook_mapped(model, [entry for _, entry in mapped], undo)
        undo.callback(hooked(model, before=run.begin, first=True))
        undo.callback(hooked(model, after=partial(run.end, is_root="" in places.values()), always=True))
        if not compiled:
            undo.enter_context(attention_functions(run.attention))
        yield recording
        run.finish()
        recording.parameters, recording.loaded = parameters_by_path(case, module_at)
        hidden = [*map(pattern_of, inside)]
        recording.left_out |= inside_compiled(model, compiled, hidden)
    if recording.left_out:
        warnings.warn(in_words(recording.left_out.values()), stacklevel=3)  # of who wrote the with


def _by_path(model: nn.Module) -> dict[str, nn.Module]:
    modules = dict[str, nn.Module]()
    for its_path, module in model.named_modules(remove_duplicate=False):
        modules.setdefault(plain_path(its_path), module)
    return modules


def stored_of(model: nn.Module) -> pb.Arithmetic:
    """The arithmetic of a model's first parameter that is a float."""
    dtypes = (parameter.dtype for parameter in model.parameters() if parameter.is_floating_point())
    first = next(dtypes, None)
    return pb.ARITHMETIC_UNSPECIFIED if first is None else ARITHMETIC.get(first, pb.ARITHMETIC_OTHER)


def _unknown() -> None:
    """The origin of what no hook gives."""


class _Run:
    """The forwards of a model while it is recorded: which slots each covers, and where its tensors go."""

    def __init__(
        self, recording: Recorder, selected_taps: set[str], places: Mapping[str, str], modules: dict[str, nn.Module]
    ) -> None:
        self.recording, self.selected_taps = recording, selected_taps
        self.paths = dict[str, str]()
        for tap, place in places.items():
            self.paths.setdefault(place, tap)
        self.forwards = Forwards(recording.case, recording.bounds)
        self.calls = Counter[str]()
        self.misfits = set[str]()
        self.entries: Mapping[str, Entry] = {}
        self.attending: Mapping[nn.Module, str] = {}
        self.modules, self.lines = modules, Lines()
        self.module_paths = {module: path for path, module in reversed(modules.items())}

    def hook(self, places: Sequence[str], undo: ExitStack) -> None:
        """Have the modules at these places recorded under the golden's names, until `undo` is closed."""
        self.attending = {self.modules[place]: self.paths[place] for place in places}
        for place in dict.fromkeys(places):
            if place:  # the model itself has hooks that tell where a forward ends
                undo.callback(hooked(self.modules[place], after=partial(self.gave, self.paths[place])))

    def begin(self, module: nn.Module, args: Any, named: Any) -> None:
        """A forward begins: calls of its modules are counted anew."""
        self.forwards.begin(module, args, named)
        self.calls.clear()

    def hook_mapped(self, model: nn.Module, entries: Sequence[Entry], undo: ExitStack) -> None:
        """Have what a name map's entries name recorded, until `undo` is closed."""
        rows = [(tap, entry) for entry in entries for tap in entry.named.patterns]
        bound = tuple(Bound(tap, entry.named.path, row_of(entry.named, tap).row) for tap, entry in rows)
        self.entries = dict(rows)
        undo.enter_context(attach(model, "", self.mapped, rows=bound, records=self.selected_taps.__contains__))

    def gave(self, path: str, _module: nn.Module, args: Any, named: Any, result: Any) -> None:
        """Take what a module gives: a tensor, or those among several, each called after its place."""
        self.forwards.running(path)
        path = named_call(path, args, named)
        self.calls[path] += 1
        for place, value in enumerate(_parts(result)):
            self.offer(called(path, self.calls[path], place), value, self.of_module(_module))

    def of_module(self, module: nn.Module) -> Callable[[], Origin]:
        """What gives the origin of a module's results."""
        return partial(self.lines.of_module, module, self.module_paths[module])

    def end(self, _module: nn.Module, _args: Any, named: Any, result: Any, *, is_root: bool) -> None:
        """A forward has come to its end, or to an exception: take what the model gives, and its caches."""
        if self.forwards.now is not None and result is not None:
            if is_root:
                self.gave(self.paths[""], _module, _args, named, result)
            if isinstance(result, Mapping):
                values = {name: result.get(name) for name in RESULTS}
            else:
                alone = _parts(result)[0] if _parts(result) else None
                values = {} if is_root else {self.called_alone(alone): alone}
            for name, value in values.items():
                self.offer(name, value, self.of_module(_module))
            cache = (result.get(CACHE) if isinstance(result, Mapping) else None) or (named or {}).get(CACHE)
            self.state(cache)
        self.forwards.end()

    def called_alone(self, value: Any) -> str:
        """Which result of the golden a tensor alone is: the first with as many axes, else the first; "" for none."""
        golden = self.recording.case.golden
        last = {name: golden.get(name, len(golden.case.steps) - 1) for name in RESULTS}
        axes = {name: item.array.ndim for name, item in last.items() if item is not None}
        return next((name for name in axes if axes[name] == getattr(value, "ndim", 0)), next(iter(axes), ""))

    def state(self, cache: Any) -> None:
        """Take the tensors of a cache of transformers at the end of a forward, where they fit."""
        for name, value in states(cache):
            self.offer(name, value, optional=True)

    def attention(self, module: nn.Module, values: Mapping[str, object], function: str) -> None:
        """Take what an attention function was given and gave."""
        path = self.attending.get(module)
        if path is None or self.forwards.now is None:
            return
        if self.recording.backend != pb.COMPILED:
            self.recording.backend = _BACKENDS.get(function, pb.FOREIGN)
        self.calls[f"{path}.attention"] += 1
        name = called(path, self.calls[f"{path}.attention"])
        for part, value in values.items():
            self.offer(f"{name}.{part}", value, partial(self.lines.of_call, self.module_paths), optional=True)

    def offer(
        self, name: str, value: object, origin: Callable[[], Origin | None] = _unknown, *, optional: bool = False
    ) -> None:
        """Record a tensor under a name of the golden; what has a form of its own is left out, in words or quietly."""
        if name not in self.selected_taps or not isinstance(value, torch.Tensor):
            return
        forward = self.forwards.running(name)
        if name in self.misfits or any((name, step) in self.recording for step in self._steps()):
            return
        array, dtype = elements(value, name)
        try:
            self.recording.add(name, array, dtype, forward, name, by_name=True)
        except ParityError as error:
            self.misfits.add(name)
            if not optional:
                self.recording.left_out.setdefault(pattern_of(module_of(name)), error)
            return
        self.say_where(name, origin)

    def say_where(self, name: str, origin: Callable[[], Origin | None]) -> None:
        """Note which line makes a tap, the first time that it is recorded."""
        origins = self.recording.origins
        if name not in origins and (known := origin()) is not None:
            origins[name] = known

    def _steps(self) -> list[int]:
        """The steps that the forward completes."""
        forward = self.forwards.running("")
        bounds = self.recording.bounds
        return [step for step, (a, b) in enumerate(bounds) if a >= forward.new and b <= forward.stop]

    def mapped(self, name: str, value: Any) -> None:
        """Take what a module of the name map gives, or is given; of a fused one the part that is the tap."""
        entry, golden = self.entries[name], self.recording.case.golden
        forward = self.forwards.running(entry.key)
        if not isinstance(value, torch.Tensor):
            raise ParityError(
                entry.key,
                "this is no tensor",
                expected=f"the tensor of {name}",
                got=type(value).__name__,
                next_step="name the number of the output or input: PATH:output.1",
            )
        array, dtype = elements(value, entry.key)
        if len(entry.named.patterns) > 1:
            bounds, batch = self.recording.bounds, self.recording.case.batch
            widths = list[int]()
            for tap in entry.named.patterns:
                there = wanted_of(golden, tap, forward, bounds, batch)
                parts = there.parts if there else []
                widths.append(width_of(parts))
            array = parts_of_fused(entry, widths, array, entry.key)[entry.named.patterns.index(name)]
        self.recording.add(name, array, dtype, forward, entry.key, entry.order)
        path, is_argument = entry.named.path, entry.named.end == "input"
        self.say_where(name, lambda: self.lines.of_module(self.modules[path], path, is_argument=is_argument))

    def finish(self) -> None:
        """Raise `ParityError` for a case that was not run to its end, and where nothing has the form of its tap."""
        self.forwards.refuse_unfinished()
        if not len(self.recording):
            for said in self.recording.left_out.values():
                raise said


def _parts(result: Any) -> list[Any]:
    """What a module gives as its places: a tensor alone, or the members of a tuple, a list or an output by names."""
    if isinstance(result, Mapping):
        return list(result.values())
    return list(result) if isinstance(result, tuple | list) else [result]
