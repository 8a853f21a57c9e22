"""Which tensor of somebody's is which tap: by its numbers, and by its place beside one that is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from qwen3_golden import Array, ParityError, pattern_of, pb, place
from qwen3_golden.networks import Bound, bound
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.judge.next_command import show_command
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.layout import is_ambiguous, lay_out, readings, sizes_of, split, split_axes, width_of
from qwen3_parity.recording.names import Named

LAYER = "{layer}"
_FUSED = (("q_proj", "k_proj", "v_proj"), ("k_proj", "v_proj"), ("gate_proj", "up_proj"))


def no_table(case: Case) -> ParityError:
    """The refusal of a golden with a graph."""
    return ParityError(
        case.name,
        "names are matched by a table of the network, and a golden with a graph has no table of its network",
        expected="a case of decoder/*, llama/* or encoder/*",
        got="a golden with a graph",
        next_step="names that are the golden's need no map; for others write it, "
        f'"their.{LAYER}.name" = "mlp.down_proj" on each line: {show_command(case.name, case.path)} lists the taps',
    )


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


class Matched(dict[str, Match]):
    """The match of each pattern that has one, the first that was taken."""

    def take(self, matches: Iterable[Match]) -> None:
        """Add what has no match yet."""
        for match in matches:
            for pattern in match.named.patterns:
                self.setdefault(pattern, match)

    def proposed(self, taps: Taps) -> tuple[list[Match], list[str]]:
        """The entries of a name map, in network order, and the taps for which there is none."""
        entries = {id(self[pattern]): self[pattern] for pattern in taps.patterns if pattern in self}
        return list(entries.values()), [name for name in taps.patterns if name not in self]


class Taps:
    """A golden's taps over the slots of these `steps`, all of them by default."""

    def __init__(self, case: Case, steps: Sequence[int] | None = None) -> None:
        self.case, self.config = case, case.golden.case.config
        self.steps = range(len(case.lengths)) if steps is None else steps
        total = sum(case.lengths[step] for step in self.steps)
        self.sizes = sizes_of(self.config, len(next(iter(case.arrays.values()))), total, total)
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
        tap_place = place(pattern.replace(LAYER, "0"))
        assert tap_place is not None
        return split_axes(pattern, tap_place.axes)

    def agrees(self, pattern: str, layer: int, array: Array, order: Sequence[str]) -> bool:
        """Whether a tensor is the tap of a layer within noise, its axes in this order."""
        axes, name = self.axes(pattern), pattern.replace(LAYER, str(layer))
        try:
            laid = lay_out(array, order, axes, self.sizes)
        except ValueError:
            return False
        steps = [item for step in self.steps if (item := self.case.golden.get(name, step)) is not None]
        query = list(steps[0].info.axes).index("query") if steps else 0
        if not steps or (len(steps) > 1 and "key" in steps[0].info.axes):  # each step sees more keys than the last
            return False
        whole = np.concatenate([item.values() for item in steps], axis=query).astype(np.float64)
        if laid.size != whole.size:
            return False
        error = float(np.sqrt(np.mean((laid.reshape(whole.shape) - whole) ** 2)))
        floor = max(item.info.floor.rms for item in steps) * headroom("run", steps[0].info.op).rms
        return error <= max(floor, 1e-6 * float(np.sqrt(np.mean(whole**2))))


def fits(golden: Taps, observed: Observed, pattern: str) -> list[tuple[str, ...]]:
    """The orders in which a place can hold a tap by its shape; none where one has layers and the other none."""
    if (LAYER in observed.path) != (LAYER in pattern) or 0 not in observed.arrays:
        return []
    return list(readings(observed.arrays[0].shape, golden.axes(pattern), golden.sizes))


def fused(golden: Taps, observed: Observed) -> Iterator[tuple[list[str], list[int], str]]:
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


def by_numbers(golden: Taps, places: Sequence[Observed]) -> Iterator[Match]:
    """What agrees with the golden within noise, in all layers or in those before a mistake."""
    for observed in [observed for observed in places if 0 in observed.arrays and LAYER in observed.path]:
        for patterns, widths, groups in fused(golden, observed):
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
            orders = fits(golden, observed, pattern)
            for order in orders:
                count = sum(golden.agrees(pattern, layer, array, order) for layer, array in observed.arrays.items())
                if golden.agrees(pattern, 0, observed.arrays[0], order) and (best is None or count > best[0]):
                    best = count, observed, order if is_ambiguous(orders) else ()
        if best is not None:
            yield _agreeing(best[0], best[1], [pattern], axes=best[2])


def _agreeing(count: int, observed: Observed, patterns: list[str], groups: str = "", axes: Sequence[str] = ()) -> Match:
    every = count == len(observed.arrays)
    of = f"in {count} of {len(observed.arrays)} layers" if LAYER in observed.path else "with the golden"
    return Match(observed.named(patterns, axes, groups), 3 if every else 2, f"agrees {of}")


def by_place(golden: Taps, places: Sequence[Observed], matched: Mapping[str, Match]) -> Iterator[Match]:
    """What goes into a module that is known, where the table has it so; and what a layer hands to the next."""
    known = {
        golden.rows[p].module: m.named.path for p, m in matched.items() if p in golden.rows and m.named.end == "output"
    }
    by = {(observed.path, observed.end, observed.number): observed for observed in places}
    for pattern, row in golden.rows.items():
        goes_in = by.get((known.get(row.module, ""), "input", 0)) if row.row.HasField("argument") else None
        if goes_in is not None and fits(golden, goes_in, pattern):
            yield Match(goes_in.named([pattern]), 1, f"goes into {goes_in.path}, as the table has it")
    yield from _handed_on(golden, places, matched)


def _handed_on(golden: Taps, places: Sequence[Observed], matched: Mapping[str, Match]) -> Iterator[Match]:
    """What a layer hands to the next, where its input is known and its output is not."""
    into, out = (next((p for p in golden.patterns if p.endswith(f"{LAYER}.{end}")), "") for end in ("input", "output"))
    if into not in matched or out in matched:
        return
    entry = matched[into].named
    by = {(observed.path, observed.end, observed.number): observed for observed in places}
    inputs = by[entry.path, entry.end, entry.number].arrays
    for observed in sorted(places, key=lambda observed: observed.order):
        pairs = [(array, inputs[layer + 1]) for layer, array in observed.arrays.items() if layer + 1 in inputs]
        if observed.end == "output" and pairs and all(np.array_equal(a, b) for a, b in pairs):
            yield Match(observed.named([out]), 2, "is what the next layer is given")


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
    return f"layers.{LAYER}.{last}" if last in ("input", "output") else last
