"""Which module of a model holds which tap: proposed from numbers, weights, order and shapes, for the user to confirm.

What agrees with the golden within noise is the tap, in one layer as in all. Behind a mistake numbers no longer agree:
there the module that holds the checkpoint's weights is known by them, and what goes into it by the network's table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import nn

from qwen3_golden import GOLDEN_ROOT, Array, ParityError
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.recording.arguments import run
from qwen3_parity.recording.attention_calls import Attention
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.compiled import compiled_paths, plain_module
from qwen3_parity.recording.layout import is_ambiguous, split
from qwen3_parity.recording.matches import (
    LAYER,
    Match,
    Matched,
    Observed,
    Taps,
    by_numbers,
    by_place,
    fits,
    fused,
    no_table,
)
from qwen3_parity.recording.recorder import elements

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def observe(model: nn.Module, case: Case) -> tuple[list[Observed], int]:
    """Every tensor that goes into a module or comes out of one in a forward, and how often attention was called."""
    places, calls = dict[tuple[str, str, int], Observed](), list[Any]()

    def keep(path: str, end: str, leaf: bool, values: Any) -> None:
        values = tuple(values.values()) if isinstance(values, Mapping) else values
        for number, value in enumerate(values if isinstance(values, tuple) else (values,)):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                numbers = _NUMBER.search(path)
                layer, general = (int(numbers[0]), _NUMBER.sub(LAYER, path, count=1)) if numbers else (0, path)
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


def match_names(model: nn.Module, case: Case) -> tuple[list[Match], list[str]]:
    """The proposed entries of a name map, in network order, and the taps for which there is none.

    What attention's own calls show needs no entry and is left out. Raises what the model raises, and `ParityError` for
    one that is compiled.
    """
    if case.is_graph:
        raise no_table(case)
    if compiled := compiled_paths(model):
        raise ParityError(
            type(plain_module(model)).__name__,
            "it is compiled, and no hook can stand inside of what is compiled",
            expected="the model before it is compiled; the map serves both",
            got=f"torch.compile of {', '.join(path or 'the model' for path in compiled[:3])}",
            next_step="let the factory leave out torch.compile for match-names",
        )
    golden, weights = Taps(case), weights_of(case.golden, GOLDEN_ROOT / "checkpoints", case.model)
    places, calls = observe(model, case)
    if calls:
        golden.patterns = [name for name in golden.patterns if not name.endswith(".context")]
    matched = Matched()
    matched.take(by_numbers(golden, places))
    matched.take(_by_weights(golden, weights, model, places, matched))
    matched.take(by_place(golden, places, matched))
    matched.take(_by_shape(golden, places, matched))
    return matched.proposed(golden)


def _by_weights(
    golden: Taps,
    weights: Mapping[str, Array],
    model: nn.Module,
    places: Sequence[Observed],
    matched: Mapping[str, Match],
) -> Iterator[Match]:
    """The modules that hold the checkpoint's weights, behind a mistake that changes all numbers."""
    for observed in sorted(
        (observed for observed in places if observed.end == "output" and 0 in observed.arrays),
        key=lambda observed: observed.order,
    ):
        for parameter in model.get_submodule(observed.path.replace(LAYER, "0")).parameters(recurse=False):
            held = parameter.detach().float().cpu().numpy()
            for pattern in [pattern for pattern in golden.patterns if pattern not in matched]:
                theirs = weights.get(_weight(pattern))
                if theirs is not None and any(np.array_equal(held, w) for w in (theirs, theirs.T)):
                    yield Match(observed.named([pattern]), 2, "holds the checkpoint's weight")
            for patterns, widths, groups in fused(golden, observed) if held.ndim == 2 else ():
                for turned in (held.T, held):
                    if _holds_fused(golden, weights, turned, patterns, widths, groups):
                        reason = "holds the checkpoint's weights, side by side"
                        yield Match(observed.named(patterns, groups=groups), 2, reason)


def _weight(pattern: str) -> str:
    """The weight of a tap's module in the first layer."""
    return f"{pattern.replace(LAYER, '0')}.weight"


def _holds_fused(
    golden: Taps,
    weights: Mapping[str, Array],
    held: Array,
    patterns: Sequence[str],
    widths: Sequence[int],
    groups: str,
) -> bool:
    """Whether a parameter, `[in, out]`, is the checkpoint's weights of these taps side by side."""
    theirs = [weights.get(_weight(pattern)) for pattern in patterns]
    if held.shape[-1] != sum(widths) or any(weight is None for weight in theirs):
        return False
    parts = split(held, widths, golden.sizes[groups] if groups else 1)
    return all(w is not None and np.array_equal(part, w.T) for part, w in zip(parts, theirs, strict=True))


def _by_shape(golden: Taps, places: Sequence[Observed], matched: Mapping[str, Match]) -> Iterator[Match]:
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
            if free and (orders := fits(golden, observed, pattern)):
                taken.add((observed.path, observed.end, observed.number))
                yield Match(
                    observed.named([pattern], orders[0] if is_ambiguous(orders) else ()), 0, "by order and shape"
                )
                break
