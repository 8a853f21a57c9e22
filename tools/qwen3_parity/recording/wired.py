"""A torch model of somebody's own, recorded while they run it: hooks on its modules, and an eye on its attention calls.

The hooks are those of `qwen3_reference.binding`, from the rows of golden/networks where the model names its modules as
Hugging Face does, and from a name map elsewhere.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qwen3_golden import ParityError, pattern_of, pb, selected
from qwen3_golden.networks import Bound
from qwen3_parity.judge.match import GIVEN
from qwen3_parity.recording.attention_calls import Attention, Call, plain_call, taps_of
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.compiled import (
    compiled_paths,
    is_inside,
    plain_module,
    plain_path,
)
from qwen3_parity.recording.forwards import Forwards
from qwen3_parity.recording.hugging_face import row_of, usual_rows
from qwen3_parity.recording.left_out import in_words, inside_compiled, listed
from qwen3_parity.recording.modules import record_modules, stored_of
from qwen3_parity.recording.names import Named, Names, name_map, part_of
from qwen3_parity.recording.origins import Lines
from qwen3_parity.recording.parameters import parameters_of
from qwen3_parity.recording.record import no_such_tap
from qwen3_parity.recording.recorder import Recorder, elements, recorder
from qwen3_reference.binding import attach, hooked

_LAYER = "{layer}"
_ATTENTION = "scaled_dot_product_attention"
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_FIRST = re.compile(r"(?<![^.])0(?![^.])")
_TABLES = ("cos", "sin", "inv_freq", "position_ids")
"""Taps that a model may keep in a form of its own: left out where they are not laid out as the golden's."""


def record_module(
    model: nn.Module, case: Case, names: Names | None = None, path: Path | None = None, taps: Sequence[str] = ()
) -> Any:  # a context manager of a Recorder
    """See `qwen3_parity.record`; `taps` are globs. Raises `ParityError` for what is no torch module."""
    if not isinstance(model, nn.Module):
        raise ParityError(
            f"model {model!a:.60}",
            "this is no torch module, so there is nothing to hook",
            expected="a torch.nn.Module with the weights of the case's checkpoint",
            got=type(model).__name__,
            next_step="build your model, or record without torch: qwen3-parity show docs/check-your-model.md",
        )
    if case.is_graph:
        return record_modules(model, case, names, path, taps)
    return _recorded(model, case, [] if names is None else name_map(names, case.stack), path, taps)


@contextmanager
def _recorded(
    model: nn.Module, case: Case, named: Sequence[Named], path: Path | None, taps: Sequence[str]
) -> Iterator[Recorder]:
    if not any(selected(t.info.name, taps) for t in case.golden if not t.info.name.startswith(GIVEN)):
        raise no_such_tap(case.golden, taps)
    entries = {pattern: entry for entry in named for pattern in entry.patterns}
    compiled = compiled_paths(model)
    rows, inside = rows_of(model, case, named, compiled)
    with recorder(case, path, type(plain_module(model)).__name__) as recording, ExitStack() as undo:
        recording.stored = stored_of(model)
        recording.backend = pb.COMPILED if compiled else recording.backend
        run = _Run(recording, entries, taps, model, rows)
        recording.left_out |= inside_compiled(
            model, compiled, [row.pattern for row in inside if run.is_selected(_first(row.pattern))]
        )
        undo.enter_context(attach(model, case.stack, run.tap, rows=rows, records=run.is_selected))
        undo.callback(hooked(model, before=run.begin, first=True))
        undo.callback(hooked(model, after=run.forwards.end, always=True))
        if not compiled or any("attn." in row.pattern for row in rows):  # else calls are inside, or cannot be counted
            undo.enter_context(Attention(run.attention))
        yield recording
        run.finish()
        recording.parameters, recording.loaded = parameters_of(model, case, (*rows, *inside), entries)
    if recording.left_out:
        warnings.warn(in_words(recording.left_out.values()), stacklevel=3)  # of who wrote the with


def rows_of(
    model: nn.Module, case: Case, named: Sequence[Named], compiled: Sequence[str]
) -> tuple[tuple[Bound, ...], list[Bound]]:
    """What is hooked: the modules of a name map, or Hugging Face's that the model has; and what the model gives.

    Behind it the rows whose modules are inside of those at the paths `compiled`. Raises `ParityError` when there
    is nothing to hook, and for a path of the map that the model does not have, or inside of what is compiled.
    """
    paths = paths_of(model)
    for entry in named:
        _refuse_path(entry, paths, compiled)
    taken = {pattern for entry in named for pattern in entry.patterns}
    mapped = [row_of(entry, pattern) for entry in named for pattern in entry.patterns]
    usual = usual_rows(paths, case.stack, named)
    inside = [row for row in usual if is_inside(row.module, compiled)]
    if case.stack == "decoder" and "logits" not in taken:
        usual.append(row_of(Named("", ("logits",)), "logits"))
    if not mapped and len(usual) < 2 and not compiled:  # logits alone are what any model gives
        raise ParityError(
            type(model).__name__,
            "none of its modules has a name that Hugging Face's Qwen3 has",
            expected="layers.0.self_attn.q_proj and the like, or names={…}",
            got=", ".join([path for path in paths if path][:6]),
            next_step=f"qwen3-parity match-names {case.name} --impl package.module:factory proposes the map",
        )
    rows = (*[row for row in usual if row not in inside], *mapped)
    if not rows:
        raise ParityError(
            type(model).__name__,
            "it is compiled whole, and what it gives has no name",
            expected='names={"": the tap that it gives}',
            got=f"torch.compile of {listed(compiled)}",
            next_step=f'say names={{"": "{case.stack}.norm"}}, or record the model before it is compiled',
        )
    return rows, inside


def _refuse_path(entry: Named, paths: Collection[str], compiled: Sequence[str]) -> None:
    """Raise `ParityError` for a path of a name map that the model does not have, or inside of what is compiled."""
    if entry.path not in paths:
        close = get_close_matches(entry.path, paths, n=3, cutoff=0.4)
        raise ParityError(
            f"names[{entry.key!r}]",
            "the model has no such module",
            expected=f"a path of model.named_modules(); the nearest are {', '.join(close) or 'none'}",
            got=entry.path,
            next_step="correct the path, its layer's number written {layer}",
        )
    if is_inside(entry.path, compiled):
        raise ParityError(
            f"names[{entry.key!r}]",
            "this module is inside of one that is compiled, where no hook can stand",
            expected="modules that are compiled themselves, whole, or not at all",
            got=f"torch.compile of {listed(compiled)}",
            next_step="leave it out of the map, or record the model before it is compiled, with the same map",
        )


def _first(pattern: str) -> str:
    return pattern.replace(_LAYER, "0")


def paths_of(model: nn.Module) -> list[str]:
    """Every module's path, as it is and with {layer} in the place of a first number that is 0."""
    paths = [plain_path(path) for path, _ in model.named_modules(remove_duplicate=False)]
    return list(dict.fromkeys(spelling for path in paths for spelling in (path, _FIRST.sub(_LAYER, path, count=1))))


class _Run:
    """The forwards of a model while it is recorded: which slots each covers, and where its tensors go."""

    def __init__(
        self,
        recording: Recorder,
        entries: Mapping[str, Named],
        taps: Sequence[str],
        model: nn.Module,
        rows: Sequence[Bound],
    ) -> None:
        self.recording, self.entries, self.taps = recording, entries, taps
        self.rows, self.lines = {row.pattern: row for row in rows}, Lines()
        self.modules = {plain_path(path): module for path, module in model.named_modules(remove_duplicate=False)}
        self.paths = {module: path for path, module in reversed(self.modules.items())}
        self.forwards, self.calls = Forwards(recording.case, recording.bounds), 0
        self.shown: set[str] = set()  # by calls of attention
        self.earlier: dict[int, Call] = {}  # of each layer, in the forward before

    def is_selected(self, name: str) -> bool:
        """Whether a tap is asked for."""
        return selected(name, self.taps)

    def begin(self, module: nn.Module, args: Any, named: Any) -> None:
        """A forward begins: its calls of attention are counted anew."""
        self.forwards.begin(module, args, named)
        self.calls = 0

    def tap(self, name: str, value: Any) -> None:
        """Take a tensor that a hook hands over; of a fused one its part."""
        pattern = pattern_of(name)
        entry = self.entries.get(pattern)
        where = f"names[{entry.key!r}]" if entry else name
        forward = self.forwards.running(where)
        optional = not entry and pattern.endswith((*_TABLES, "context"))
        if optional and self._has(name):
            return
        if not isinstance(value, torch.Tensor):
            if optional:
                return
            raise ParityError(
                where,
                "this is no tensor",
                expected=f"the tensor of {name}",
                got=type(value).__name__,
                next_step="name the number of the output or input: PATH:output.1",
            )
        array, dtype = elements(value, where)
        if entry and len(entry.patterns) > 1:
            array = part_of(entry, pattern, array, where, self._sizes())
        if not entry and pattern == "logits" and array.shape[-1:] != (self._sizes()["vocab"],):
            return  # a model without a head
        try:
            self.recording.add(name, array, dtype, forward, where, entry.axes if entry else ())
        except ParityError:
            if not optional:
                raise
            return
        self._say_where(name, self.rows.get(pattern))

    def _say_where(self, name: str, row: Bound | None) -> None:
        """Note which line makes a tap: of the row's module, or of a call of attention."""
        if name in self.recording.origins:
            return
        if row is None:
            origin = self.lines.of_call(self.paths)
        else:
            layer = _NUMBER.search(name)
            path = row.module.replace(_LAYER, layer[0] if layer else "")
            origin = self.lines.of_module(self.modules[path], path, is_argument=row.row.HasField("argument"))
        if origin is not None:
            self.recording.origins[name] = origin

    def _has(self, name: str) -> bool:
        assert self.forwards.now is not None
        steps = [number for number, (start, _) in enumerate(self.recording.bounds) if start == self.forwards.now.new]
        return (name, steps[0]) in self.recording

    def _sizes(self) -> dict[str, int]:
        assert self.forwards.now is not None
        return self.recording.sizes(self.forwards.now)

    def attention(self, call: Call) -> None:
        """Take what a call of scaled_dot_product_attention shows; a forward's calls are its layers."""
        if self.forwards.now is None:
            return
        layer, self.calls = self.calls, self.calls + 1
        config, stack = self.recording.case.golden.case.config, self.recording.case.stack
        if layer >= config.num_hidden_layers:
            raise ParityError(
                _ATTENTION,
                "it is called more often than there are layers",
                expected=f"{config.num_hidden_layers} calls in a forward",
                got=f"call {layer + 1}",
                next_step="build the model by the case's own config.json: case.checkpoint",
            )
        begin = f"{stack}.layers.{layer}.{'merged_attn' if stack == 'decoder' else 'self_attn'}"
        self.recording.backend = self.recording.backend if self.recording.backend == pb.COMPILED else pb.SDPA
        plain = plain_call(call, config, sizes := self._sizes(), self.earlier.get(layer))
        if config.sliding_window:  # a cache may overwrite in place what it drops
            self.earlier[layer] = replace(plain, key=plain.key.clone(), value=plain.value.clone())
        for last, (tensor, axes) in taps_of(plain, sizes).items():
            self._offer(f"{begin}.{last}", tensor, axes)

    def _offer(self, name: str, value: torch.Tensor, axes: tuple[str, ...]) -> None:
        """Record what a call shows, unless a name map has it elsewhere or it is laid out in a way of its own."""
        assert self.forwards.now is not None
        sizes, pattern = self._sizes(), pattern_of(name)
        if pattern in self.entries or not self.is_selected(name):
            return
        self.shown.add(pattern)
        lengths = [sizes[axis] for axis in axes]
        if list(value.shape) != lengths:
            self.recording.left_out.setdefault(
                pattern,
                ParityError(
                    f"{_ATTENTION}, call {self.calls} of forward {self.forwards.count}",
                    f"what it is given or gives is not laid out as {pattern}, so this tap is left out",
                    expected=f"[{', '.join(axes)}] = {lengths}",
                    got=f"shape {list(value.shape)}",
                    next_step="name a module that has this tap in a name map, or go on without it",
                ),
            )
            return
        array, dtype = elements(value, name)
        self.recording.add(name, array, dtype, self.forwards.now, name, axes)
        self._say_where(name, None)

    def finish(self) -> None:
        """Raise `ParityError` when the case was not run to its end, or a tap shows in some forwards or layers alone."""
        self.forwards.refuse_unfinished()
        golden = self.recording.case.golden
        for pattern in sorted(self.shown):
            keys = [item.key for item in golden if pattern_of(item.info.name) == pattern]
            holes = [key for key in keys if key not in self.recording]
            if not holes:  # shown at another place, too
                self.recording.left_out.pop(pattern, None)
            elif len(holes) < len(keys):
                said = self.recording.left_out.get(pattern)
                name, step = holes[0]
                raise ParityError(
                    said.where if said else _ATTENTION,
                    f"calls of attention show {pattern} in some forwards and layers, and not in others",
                    expected=said.expected if said else f"a call for each layer, in each forward ({name}, step {step})",
                    got=said.got if said else f"none for {len(holes)} of {len(keys)} tensors",
                    next_step="run the case in one forward, model(**case.inputs), or name a module that has this tap",
                )
