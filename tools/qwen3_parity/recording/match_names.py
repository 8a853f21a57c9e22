"""Which module of a model holds which tap: proposed from numbers, weights, order and shapes, for the user to confirm.

What agrees with the golden within noise is the tap, in one layer as in all. Behind a mistake numbers no longer agree:
there the module that holds the checkpoint's weights is known by them, and what goes into it by the network's table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np
import torch
from torch import nn

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, pattern_of, pb, place
from qwen3_golden.networks import Bound, bound
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.recording.arguments import run
from qwen3_parity.recording.attention_calls import Attention
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.compiled import compiled_paths, plain_module
from qwen3_parity.recording.layout import is_ambiguous, lay_out, readings, sizes_of, split, split_axes, width_of
from qwen3_parity.recording.names import Named
from qwen3_parity.recording.recorder import elements

_LAYER = "{layer}"
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_FUSED = (("q_proj", "k_proj", "v_proj"), ("k_proj", "v_proj"), ("gate_proj", "up_proj"))


@dataclass(frozen=True)
class Match:
    """One or several taps of one module, why, and how sure that is, from 0 (a guess) to 3 (every layer agrees)."""

    named: Named
    sure: int
    why: str


@dataclass
class Observed:
    """What one place of the model held in a forward: its tensor in each layer, its module's leafness and its turn."""

    path: str
    end: str
    number: int
    leaf: bool
    turn: int
    arrays: dict[int, Array] = field(default_factory=dict)

    @property
    def order(self) -> tuple[bool, bool, int]:
        """Smaller is preferred among places that hold the same: what comes out of the smallest part."""
        return self.end == "input", not self.leaf, self.turn

    def named(self, patterns: Sequence[str], axes: Sequence[str] = (), groups: str = "") -> Named:
        """The entry of a map."""
        return Named(self.path, tuple(patterns), self.end, self.number, tuple(axes), groups)


def observe(model: nn.Module, case: Case) -> tuple[list[Observed], int]:
    """Every tensor that goes into a module or comes out of one in a forward, and how often attention was called."""
    places, calls = dict[tuple[str, str, int], Observed](), list[Any]()

    def keep(path: str, end: str, leaf: bool, values: Any) -> None:
        values = tuple(values.values()) if isinstance(values, Mapping) else values
        for number, value in enumerate(values if isinstance(values, tuple) else (values,)):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                numbers = _NUMBER.search(path)
                layer, general = (int(numbers[0]), _NUMBER.sub(_LAYER, path, count=1)) if numbers else (0, path)
                observed = Observed(general, end, number, leaf, len(places))
                places.setdefault((general, end, number), observed).arrays[layer] = elements(value.float(), path)[0]

    with ExitStack() as undo:
        for path, module in model.named_modules(remove_duplicate=False):
            leaf = not any(True for _ in module.children())

            def before(_: Any, args: Any, named: Any, path: str = path, leaf: bool = leaf) -> None:
                keep(path, "input", leaf, (*args, *named.values())[:1])

            def after(_: Any, __: Any, result: Any, path: str = path, leaf: bool = leaf) -> None:
                keep(path, "output", leaf, result)

            undo.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
            undo.callback(module.register_forward_hook(after).remove)
        undo.enter_context(Attention(calls.append))
        run(model, case)
    return list(places.values()), len(calls)


class _Golden:
    """The golden's taps over all slots, and its weights."""

    def __init__(self, case: Case) -> None:
        self.case, self.config = case, case.golden.case.config
        total = sum(case.lengths)
        self.sizes = sizes_of(self.config, len(next(iter(case.arrays.values()))), total, total)
        self.weights = weights_of(case.golden, GOLDEN_ROOT / "checkpoints", case.model)
        rows = [row for row in bound(case.stack) if not row.row.encoder_half and not row.row.buffer and row.module]
        there = {pattern_of(item.info.name) for item in case.golden}
        self.rows = {row.pattern: row for row in rows if not row.row.inside and row.pattern in there}
        for row in [row for row in self.rows.values() if row.pattern.endswith(".o_proj")]:
            context = Bound(row.pattern.replace("o_proj", "context"), row.module, pb.Row(name="context", argument=0))
            if context.pattern in there:
                self.rows[context.pattern] = context
        self.patterns = [pattern for pattern in self.rows if not pattern.endswith(("cos", "sin", "position_ids"))]

    def axes(self, pattern: str) -> tuple[str, ...]:
        """A tap's axes, heads by themselves."""
        tap_place = place(pattern.replace(_LAYER, "0"))
        assert tap_place is not None
        return split_axes(pattern, tap_place.axes)

    def agrees(self, pattern: str, layer: int, array: Array, order: Sequence[str]) -> bool:
        """Whether a tensor is the tap of a layer within noise, its axes in this order."""
        axes, name = self.axes(pattern), pattern.replace(_LAYER, str(layer))
        try:
            laid = lay_out(array, order, axes, self.sizes)
        except ValueError:
            return False
        steps = [
            item for step in range(len(self.case.lengths)) if (item := self.case.golden.get(name, step)) is not None
        ]
        query = self.case.golden[name, 0].info.axes[:]
        whole = np.concatenate([item.values() for item in steps], axis=query.index("query")).astype(np.float64)
        if laid.size != whole.size:
            return False
        error = float(np.sqrt(np.mean((laid.reshape(whole.shape) - whole) ** 2)))
        floor = max(item.info.floor.rms for item in steps) * headroom("run", steps[0].info.op).rms
        return error <= max(floor, 1e-6 * float(np.sqrt(np.mean(whole**2))))


def match_names(model: nn.Module, case: Case) -> tuple[list[Match], list[str]]:
    """The proposed entries of a name map, in network order, and the taps for which there is none.

    What attention's own calls show needs no entry and is left out. Raises what the model raises, and `ParityError` for
    one that is compiled.
    """
    if case.is_graph:
        raise ParityError(
            case.name,
            "names are matched by a table of the network, and a golden with a graph has no table of its network",
            expected="a case of decoder/*, llama/* or encoder/*",
            got="mode GRAPH",
            next_step="record(model, case) needs no map where modules are called alike, else it says the nearest names",
        )
    if compiled := compiled_paths(model):
        raise ParityError(
            type(plain_module(model)).__name__,
            "it is compiled, and no hook can stand inside of what is compiled",
            expected="the model before it is compiled; the map serves both",
            got=f"torch.compile of {', '.join(path or 'the model' for path in compiled[:3])}",
            next_step="let the factory leave out torch.compile for match-names",
        )
    golden = _Golden(case)
    places, calls = observe(model, case)
    if calls:
        golden.patterns = [name for name in golden.patterns if not name.endswith(".context")]
    matched = dict[str, Match]()
    for matches in (_by_numbers, _by_weights, _by_place, _by_shape):
        for match in matches(golden, model, places, matched):
            for pattern in match.named.patterns:
                matched.setdefault(pattern, match)
    proposed = {id(matched[pattern]): matched[pattern] for pattern in golden.patterns if pattern in matched}
    return list(proposed.values()), [name for name in golden.patterns if name not in matched]


def _fits(golden: _Golden, observed: Observed, pattern: str) -> list[tuple[str, ...]]:
    """The orders in which a place can hold a tap by its shape; none where one has layers and the other none."""
    if (_LAYER in observed.path) != (_LAYER in pattern) or 0 not in observed.arrays:
        return []
    return list(readings(observed.arrays[0].shape, golden.axes(pattern), golden.sizes))


def _fused(golden: _Golden, observed: Observed) -> Iterator[tuple[list[str], list[int], str]]:
    """The taps that may stand side by side in what a module gives: their patterns, widths, and in which groups."""
    for names in _FUSED:
        for ordered in permutations(names):
            patterns = [p for name in ordered for p in golden.patterns if p.endswith(f".{name}")]
            widths = [width_of(golden.axes(pattern), golden.sizes) for pattern in patterns]
            if (
                len(patterns) == len(ordered)
                and observed.arrays[0].shape[-1] == sum(widths)
                and observed.end == "output"
            ):
                yield patterns, widths, ""
                yield patterns, widths, "kv_heads" if "k_proj" in names else "intermediate"


def _by_numbers(
    golden: _Golden, model: nn.Module, places: Sequence[Observed], matched: Mapping[str, Match]
) -> Iterator[Match]:
    """What agrees with the golden within noise, in all layers or in those before a mistake."""
    for observed in [observed for observed in places if 0 in observed.arrays and _LAYER in observed.path]:
        for patterns, widths, groups in _fused(golden, observed):
            count = 0
            for layer, array in observed.arrays.items():
                parts = split(array, widths, golden.sizes[groups] if groups else 1)
                each = [
                    any(golden.agrees(p, layer, part, o) for o in readings(part.shape, golden.axes(p), golden.sizes))
                    for p, part in zip(patterns, parts, strict=True)
                ]
                count += all(each)
            if count:
                yield _agreeing(count, observed, patterns, groups)
    for pattern in golden.patterns:
        best: tuple[int, Observed, Sequence[str]] | None = None
        for observed in sorted(places, key=lambda observed: observed.order):
            orders = _fits(golden, observed, pattern)
            for order in orders:
                count = sum(golden.agrees(pattern, layer, array, order) for layer, array in observed.arrays.items())
                if golden.agrees(pattern, 0, observed.arrays[0], order) and (best is None or count > best[0]):
                    best = count, observed, order if is_ambiguous(orders) else ()
        if best is not None:
            yield _agreeing(best[0], best[1], [pattern], axes=best[2])


def _agreeing(count: int, observed: Observed, patterns: list[str], groups: str = "", axes: Sequence[str] = ()) -> Match:
    every = count == len(observed.arrays)
    of = f"in {count} of {len(observed.arrays)} layers" if _LAYER in observed.path else "with the golden"
    return Match(observed.named(patterns, axes, groups), 3 if every else 2, f"agrees {of}")


def _by_weights(
    golden: _Golden, model: nn.Module, places: Sequence[Observed], matched: Mapping[str, Match]
) -> Iterator[Match]:
    """The modules that hold the checkpoint's weights, behind a mistake that changes all numbers."""
    for observed in sorted(
        (observed for observed in places if observed.end == "output" and 0 in observed.arrays),
        key=lambda observed: observed.order,
    ):
        for parameter in model.get_submodule(observed.path.replace(_LAYER, "0")).parameters(recurse=False):
            held = parameter.detach().float().cpu().numpy()
            for pattern in [pattern for pattern in golden.patterns if pattern not in matched]:
                theirs = golden.weights.get(_weight(pattern))
                if theirs is not None and any(np.array_equal(held, w) for w in (theirs, theirs.T)):
                    yield Match(observed.named([pattern]), 2, "holds the checkpoint's weight")
            for patterns, widths, groups in _fused(golden, observed) if held.ndim == 2 else ():
                for turned in (held.T, held):
                    if _holds_fused(golden, turned, patterns, widths, groups):
                        reason = "holds the checkpoint's weights, side by side"
                        yield Match(observed.named(patterns, groups=groups), 2, reason)


def _weight(pattern: str) -> str:
    """The weight of a tap's module in the first layer."""
    return f"{pattern.replace(_LAYER, '0')}.weight"


def _holds_fused(golden: _Golden, held: Array, patterns: Sequence[str], widths: Sequence[int], groups: str) -> bool:
    """Whether a parameter, `[in, out]`, is the checkpoint's weights of these taps side by side."""
    weights = [golden.weights.get(_weight(pattern)) for pattern in patterns]
    if held.shape[-1] != sum(widths) or any(weight is None for weight in weights):
        return False
    parts = split(held, widths, golden.sizes[groups] if groups else 1)
    return all(w is not None and np.array_equal(part, w.T) for part, w in zip(parts, weights, strict=True))


def _by_place(
    golden: _Golden, model: nn.Module, places: Sequence[Observed], matched: Mapping[str, Match]
) -> Iterator[Match]:
    """What goes into a module that is known, where the table has it so; and what a layer hands to the next."""
    known = {
        golden.rows[p].module: m.named.path for p, m in matched.items() if p in golden.rows and m.named.end == "output"
    }
    by = {(observed.path, observed.end, observed.number): observed for observed in places}
    for pattern, row in golden.rows.items():
        goes_in = by.get((known.get(row.module, ""), "input", 0)) if row.row.HasField("argument") else None
        if goes_in is not None and _fits(golden, goes_in, pattern):
            yield Match(goes_in.named([pattern]), 1, f"goes into {goes_in.path}, as the table has it")
    yield from _handed_on(golden, places, matched)


def _handed_on(golden: _Golden, places: Sequence[Observed], matched: Mapping[str, Match]) -> Iterator[Match]:
    """What a layer hands to the next, where its input is known and its output is not."""
    into, out = (next((p for p in golden.patterns if p.endswith(f"{_LAYER}.{end}")), "") for end in ("input", "output"))
    if into not in matched or out in matched:
        return
    entry = matched[into].named
    by = {(observed.path, observed.end, observed.number): observed for observed in places}
    inputs = by[entry.path, entry.end, entry.number].arrays
    for observed in sorted(places, key=lambda observed: observed.order):
        pairs = [(array, inputs[layer + 1]) for layer, array in observed.arrays.items() if layer + 1 in inputs]
        if observed.end == "output" and pairs and all(np.array_equal(a, b) for a, b in pairs):
            yield Match(observed.named([out]), 2, "is what the next layer is given")


def _by_shape(
    golden: _Golden, model: nn.Module, places: Sequence[Observed], matched: Mapping[str, Match]
) -> Iterator[Match]:
    """The first place of a fitting shape behind what is known of the tap before: a guess."""
    taken = {(match.named.path, match.named.end, match.named.number) for match in matched.values()}
    turns, last = {(observed.path, observed.end, observed.number): observed.turn for observed in places}, -1
    for pattern in golden.patterns:
        if pattern in matched:
            entry = matched[pattern].named
            last = max(last, turns.get((entry.path, entry.end, entry.number), last))
            continue
        for observed in sorted(places, key=lambda observed: observed.turn):
            free = (
                observed.turn > last
                and observed.end == "output"
                and (observed.path, observed.end, observed.number) not in taken
            )
            if free and (orders := _fits(golden, observed, pattern)):
                taken.add((observed.path, observed.end, observed.number))
                yield Match(
                    observed.named([pattern], orders[0] if is_ambiguous(orders) else ()), 0, "by order and shape"
                )
                break


SURE = ("a guess", "likely", "sure", "certain")


def as_toml(matches: Sequence[Match]) -> str:
    """The name map as a TOML file, each entry with how sure it is."""
    lines = ["# Proposed by qwen3-parity match-names: look at what is not certain before you use it.\n"]
    for match in matches:
        entry, names = match.named, [_short(pattern) for pattern in match.named.patterns]
        taps = json.dumps(names if len(names) > 1 else names[0])
        if entry.axes or entry.groups:
            more = {"axes": " ".join(entry.axes), "groups": entry.groups}
            taps = f"{{ taps = {taps}" + "".join(f", {k} = {json.dumps(v)}" for k, v in more.items() if v) + " }"
        lines.append(f"{json.dumps(entry.key)} = {taps}  # {SURE[match.sure]}: {match.why}\n")
    return "".join(lines)


def _short(pattern: str) -> str:
    """The shortest name that a map may use for a tap."""
    last = pattern.rpartition(".")[2]
    return f"layers.{_LAYER}.{last}" if last in ("input", "output") else last
