"""Where and when a fault is: layers and steps, and which rows, heads, positions or channels of its taps carry it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qwen3_golden import Array, Recording
from qwen3_parity.diagnosis import facts
from qwen3_parity.diagnosis.explanation import LAYER
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.positions import Cells, Separated, at_indices, in_encoder, of_positions
from qwen3_parity.diagnosis.when import Fact, When, when
from qwen3_parity.judge.indices import ranges
from qwen3_parity.judge.op_verdict import OpVerdict

_WORDS = {
    "batch": "batch rows",
    "query": "positions",
    "row": "positions",
    "key": "keys",
    "kv_heads": "KV heads",
    "head_dim": "channels of a head",
    "hidden": "channels",
    "channel": "channels",
    "intermediate": "channels",
    "vocab": "ids",
}


def whereabouts(fault: Fault, taps: Sequence[Cells], golden: Recording) -> str:
    """In one line: layers and steps unless it is all of them, then the axes along which the first tap is part right.

    `taps` are some of the fault's wrong ones, the worst first. Where a fact of the case separates wrong from right, it
    stands in the place of a list.
    """
    worst, wrong = taps[0], {tap.step for tap in fault.wrong}
    parts = _layers_and_steps(fault, golden)
    by_cells = all(tap.wrong.any() for tap in taps)  # where a mean alone is too large, no index is to blame
    if by_cells and not all(tap.wrong[tap.judged].all() for tap in taps):
        known = of_positions(taps, {tap.step for tap in fault.passing} - wrong, golden)
        if known.keys() & {"query", "row"} and wrong <= {tap.step for tap in taps}:  # it tells the steps as well
            parts.pop("step", None)
        parts |= _axes(worst, golden, known)
    return ", ".join(parts.values())


def _axes(tap: Cells, golden: Recording, known: dict[str, Separated]) -> dict[str, str]:
    """The axes along which only some indices are wrong, as "heads 1, 3–4 (of 0–7)" or as what separates them."""
    parts = dict[str, str]()
    for axis, name in enumerate(tap.axes[: tap.wrong.ndim]):
        if "row" in known and name in ("batch", "query", "key"):
            name = "row"
        if name in known:
            at, bad, rule = known[name]
            if not bad.all():
                parts[name] = _words(name, at, bad, rule, int(at[-1]) + 1)
            continue
        across = tuple(dimension for dimension in range(tap.wrong.ndim) if dimension != axis)
        bad, at = np.asarray(tap.wrong.any(axis=across)), np.flatnonzero(tap.judged.any(axis=across))
        if bad.sum() < len(at):
            rule = when(bad[at], _of_axis(axis, at, tap, golden))
            parts[name] = _words(name, at, bad[at], rule, len(bad))
    return parts


def _of_axis(axis: int, at: Array, tap: Cells, golden: Recording) -> list[Fact]:
    size = tap.wrong.shape[axis]
    tokens = facts.tokens_of(golden, in_encoder(tap, golden)) if tap.axes[axis] == "vocab" else None
    known = facts.of_indices(size) if tokens is None else facts.of_vocabulary(tokens, size)
    return at_indices(at, [*(facts.of_keys(size) if tap.axes[axis] == "key" else ()), *known])


def _layers_and_steps(fault: Fault, golden: Recording) -> dict[str, str]:
    """The layers, and the steps, that are wrong, unless it is all of them."""
    wrong, every = ([(_layer(tap), tap.step) for tap in taps] for taps in (fault.wrong, (*fault.wrong, *fault.passing)))
    bad_layers, bad_steps = {layer for layer, _ in wrong}, {step for _, step in wrong}
    product = sum(layer in bad_layers and step in bad_steps for layer, step in every) == len(wrong)
    parts = {}
    for word, axis, bad, alone in (("layer", 0, bad_layers, bad_steps), ("step", 1, bad_steps, bad_layers)):
        at = sorted({tap[axis] for tap in every})
        if len(bad) == len(at):
            continue
        known = [facts.of_layers, facts.of_steps][axis](at, golden) if product else []
        among = np.array([index in bad for index in at])
        taps = [tap[axis] for tap in every if tap[1 - axis] in alone]
        counts = sum(index in bad for index in taps), sum(index not in bad for index in taps)
        parts[word] = _words(word, np.array(at), among, when(among, known), len(at), counts)
    return parts


def _layer(verdict: OpVerdict) -> int:
    number = LAYER.search(verdict.name)
    return int(number.group(1)) if number else 0


def _words(word: str, at: Array, bad: Array, rule: When | None, of: int, counts: tuple[int, int] | None = None) -> str:
    """The wrong ones of the indices of an axis: as a rule with its counts, wrong and right, or as a list of so many."""
    if rule is not None and rule.rule:
        wrong, rest = counts or (int(bad.sum()), int((~bad).sum()))
        words = _WORDS.get(word, word if word.endswith("s") else f"{word}s")
        return f"in {words} {rule.says} (wrong in {wrong} of {wrong}, right in {rest} of {rest})"
    noun = f"{word}{'s' if word in ('layer', 'step') and bad.sum() > 1 else ''}"
    every = ranges(at) if word in ("layer", "step") else f"0–{of - 1}"
    text = f"{noun} {ranges(at[bad])} (of {every})"  # a count beside an index from 0 would be read as from 1
    return text if rule is None else f"{text}, {rule.says}".replace("the only one that is the newest", "the newest")
