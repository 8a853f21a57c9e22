"""Wrong positions, as rules: for the ids themselves, for the tables made from them, for RoPE that turns by them."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.observed import encoder_slots, likely, observe, real
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.requests import earlier_input
from qwen3_parity.mistakes.rounding import ROUNDED
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

_ANEW = "count each request's positions from 0: nothing of the request before goes on"
FIX = "count a row's real tokens from 0: cumsum(attention_mask) - 1, going on from the cache in later steps"


@dataclass(frozen=True)
class Slots:
    """Right positions `ids[batch, length]` of a step, with what a port may count instead.

    `start` is the smallest position of the request. `earlier[batch, slot]`, True = a token, and `earlier_ids`, its positions here, are of the request before. `until[batch, slot]` are the ids of every token up to the step's end, -1 for padding.
    """

    ids: Array
    past: int
    step: int
    first: int
    tokens: Array | None
    memory: Array | None
    start: int = 0
    earlier: Array | None = None
    earlier_ids: Array | None = None
    until: Array | None = None

    @property
    def slots(self) -> Array:
        """Slot numbers of this step, whatever is padding."""
        return np.asarray(np.broadcast_to(self.past + np.arange(self.ids.shape[1]), self.ids.shape))


Change = Callable[[Slots], "Array | None"]


@dataclass(frozen=True)
class Rule:
    """A wrong way to number positions: `says` completes "this op …"; None from `change` where it makes no sense."""

    name: str
    says: str
    change: Change
    rank: Rank = PLAIN
    fix: str = FIX


def slots(site: Site, ids: Array) -> Slots:
    """What is known of the step whose positions `ids` are."""
    decoder = not encoder_slots(site)
    stack = "decoder" if decoder else "encoder"
    past = site.stop - site.case.steps[site.step] if decoder and site.case.steps else 0
    first = site.case.steps[0] if decoder and site.case.steps else ids.shape[1]
    tokens = site.values.recorded(f"input.{stack}_input_ids", 0)
    here = None if tokens is None else tokens[:, past : past + ids.shape[1]]
    memory = site.values.recorded("input.encoder_attention_mask", 0) if decoder else None
    stated = site.values.recorded(f"input.{stack}_position_ids", 0)
    start = 0 if stated is None or not stated.size else int(stated.min())
    earlier, their_ids = (earlier_input(site, f"input.{stack}_{leaf}") for leaf in ("attention_mask", "position_ids"))
    mask = site.values.recorded(f"input.{stack}_attention_mask", 0)
    whole = tokens if tokens is None or mask is None or mask.shape != tokens.shape else np.where(mask, tokens, -1)
    until = None if whole is None else whole[:, : past + ids.shape[1]]
    if earlier is None or len(earlier) != len(ids):
        return Slots(ids, past, site.step, first, here, memory, start, until=until)
    theirs = None if their_ids is None else their_ids[:, past : past + ids.shape[1]]
    theirs = theirs if theirs is not None and theirs.shape == ids.shape else None
    return Slots(ids, past, site.step, first, here, memory, start, earlier.astype(bool), theirs, until)


def _constant(value: Callable[[Slots], Array | int]) -> Change:
    return lambda s: np.broadcast_to(value(s), s.ids.shape)


def _moved(by: Callable[[Slots], Array | int | None]) -> Change:
    def change(s: Slots) -> Array | None:
        offset = by(s)
        return None if offset is None else s.ids + offset

    return change


def _in_steps(by: Callable[[Slots], Array | int]) -> Change:
    return lambda s: s.ids + by(s) if s.step else s.ids


def _rows(index: Callable[[int], Array]) -> Change:
    return lambda s: s.ids[index(len(s.ids))] if len(s.ids) > 1 else None


def _times(factor: float, s: Slots) -> Array:
    return s.ids * factor


def _in_type(r: Callable[[Array], Array], s: Slots) -> Array:
    return r(s.ids)


def _modulo(n: int, s: Slots) -> Array:
    return s.ids % n


def _signed(bits: int, s: Slots) -> Array:
    half = 1 << (bits - 1)
    return np.asarray((s.ids + half) % (2 * half) - half)


def _at_most(n: int, s: Slots) -> Array:
    return np.minimum(s.ids, n)


def _plus(n: int, s: Slots) -> Array:
    return s.ids + n


_RULES: tuple[Rule, ...] = (
    Rule("positions.earlier_request", "goes on behind the slots of the request before",
         _moved(lambda s: None if s.earlier is None else s.earlier.shape[1]), PLAIN, _ANEW),
    Rule("positions.earlier_request", "goes on behind the tokens of the request before",
         _moved(lambda s: None if s.earlier is None else s.earlier.sum(axis=1, keepdims=True)), PLAIN, _ANEW),
    Rule("positions.earlier_request", "has the positions of the request before", lambda s: s.earlier_ids, PLAIN, _ANEW),
    Rule("positions.constant", "has position 0 everywhere", _constant(lambda s: 0)),
    Rule("positions.constant", "gives every token of a step the step's first position", _constant(lambda s: s.ids[:, :1])),
    Rule("positions.constant", "gives every token of a step the step's last position", _constant(lambda s: s.ids[:, -1:])),
    Rule("positions.constant", "gives every token of the prompt the position behind its slots",
         lambda s: s.ids if s.step else np.full(s.ids.shape, s.first), PLAIN + 1),
    Rule("positions.constant", "has the number of past slots everywhere", _constant(lambda s: s.past), PLAIN + 1),
    Rule("positions.not_counting_padding", "counts slots, padding too", lambda s: s.slots),
    Rule("positions.not_counting_padding", "counts slots, padding too, in decode steps", lambda s: s.slots if s.step else s.ids, PLAIN + 1),
    Rule("positions.not_counting_padding", "counts slots, padding too, from 1", lambda s: s.slots + 1, PLAIN + 1),
    Rule("positions.restarted", "starts every step at 0", lambda s: s.slots - s.past),
    Rule("positions.restarted", "counts from 0, whatever position_ids say",
         lambda s: s.ids - s.start if s.start else None),
    Rule("positions.restarted", "starts every step at 0", _moved(lambda s: -s.ids[:, :1])),
    Rule("positions.restarted", "leaves out the past", _moved(lambda s: -s.past)),
    Rule("positions.past_counted_twice", "adds the past twice", _moved(lambda s: s.past)),
    Rule("positions.past_counted_twice", "adds the prompt's length again in decode steps", _in_steps(lambda s: s.first)),
    Rule("positions.past_counted_twice", "adds the prompt's length again from the second decode step on",
         lambda s: s.ids + s.first if s.step > 1 else s.ids, PLAIN + 1),
    Rule("positions.past_counted_twice", "adds the prompt's length again at every step", _in_steps(lambda s: s.first * s.step), PLAIN + 1),
    Rule("positions.past_counted_twice", "adds the number of steps", _moved(lambda s: s.step), PLAIN + 1),
    Rule("positions.offset", "is one behind in decode steps", _in_steps(lambda s: -1), PLAIN + 1),
    Rule("positions.offset", "is one ahead in decode steps", _in_steps(lambda s: 1), PLAIN + 1),
    Rule("positions.offset", "goes on behind the encoder's slots",
         _moved(lambda s: None if s.memory is None else s.memory.shape[1])),
    Rule("positions.offset", "goes on behind the encoder's tokens",
         _moved(lambda s: None if s.memory is None else s.memory.sum(axis=1, keepdims=True)), PLAIN + 1),
    Rule("positions.offset", "goes on behind the encoder's slots in decode steps",
         _in_steps(lambda s: 0 if s.memory is None else s.memory.shape[1]), PLAIN + 1),
    Rule("positions.offset", "adds the encoder's slots once more at every step",
         _in_steps(lambda s: 0 if s.memory is None else s.memory.shape[1] * s.step), PLAIN + 1),
    Rule("positions.other_row", "uses the positions of the batch row before", _rows(lambda n: np.arange(n) - 1), PLAIN + 1),
    Rule("positions.other_row", "uses the positions of the batch row behind", _rows(lambda n: (np.arange(n) + 1) % n), PLAIN + 1),
    Rule("positions.other_row", "uses the first batch row's positions for every row", _rows(lambda n: np.zeros(n, int)), PLAIN + 1),
    Rule("positions.other_row", "uses the last batch row's positions for every row", _rows(lambda n: np.full(n, n - 1)), PLAIN + 1),
    Rule("positions.other_row", "uses the batch rows' positions in reverse order", _rows(lambda n: np.arange(n)[::-1]), RARE),
    Rule("positions.other_row", "uses the largest position of the batch for every row",
         lambda s: np.broadcast_to(s.ids.max(axis=0), s.ids.shape), PLAIN + 1),
    Rule("positions.other_row", "uses the smallest position of the batch for every row",
         lambda s: np.broadcast_to(s.ids.min(axis=0), s.ids.shape), PLAIN + 1),
    Rule("positions.constant", "uses the largest position of the batch everywhere", _constant(lambda s: s.ids.max()), PLAIN + 1),
    Rule("positions.reversed", "counts from the other end", lambda s: s.ids[:, ::-1], PLAIN + 1),
    Rule("positions.reversed", "counts back from the row's last position", lambda s: s.ids.max(axis=1, keepdims=True) - s.ids, PLAIN + 1),
    Rule("positions.reversed", "has negative positions", lambda s: -s.ids, PLAIN + 1),
    Rule("positions.first", "has no position 0", lambda s: np.maximum(s.ids, 1), PLAIN + 1),
    Rule("positions.token_ids", "takes token ids for positions", lambda s: s.tokens, RARE),
    Rule("positions.batch_index", "takes batch rows for positions", lambda s: np.broadcast_to(np.arange(len(s.ids))[:, None], s.ids.shape), RARE + 1),
    Rule("positions.shifted", "has the positions of the token before", lambda s: np.roll(s.ids, 1, axis=1), RARE),
    Rule("positions.shifted", "has the positions of the token behind", lambda s: np.roll(s.ids, -1, axis=1), RARE),
    *(Rule("positions.scaled", f"multiplies positions by {f:g}", partial(_times, f), PLAIN + 1) for f in (2, 0.5, 4, 0.25, 8, 0.125)),
    *(Rule("positions.half_precision", f"keeps positions in {kind}", partial(_in_type, r), PLAIN + 1) for kind, r in ROUNDED),
    *(Rule("positions.wrapped", f"keeps positions in {n} bits, with a sign", partial(_signed, n), PLAIN + 1) for n in (8, 16)),
    *(Rule("positions.wrapped", f"starts again at position {n}", partial(_modulo, n), RARE)
      for n in (2**16, 2**15, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4)),
)  # fmt: skip


def _retained(most: int, s: Slots) -> Array:
    return s.ids - max(s.past - most, 0)


def _again_from(first: int, s: Slots) -> Array:
    slots = np.arange(s.ids.shape[1])
    return np.where(slots >= first, slots - first, s.ids)


def _without_id(token: int, s: Slots) -> Array | None:
    if s.until is None or s.until.shape[1] < s.ids.shape[1]:
        return None
    return np.asarray(s.ids - np.cumsum(s.until == token, axis=1)[:, -s.ids.shape[1] :])


def rules(s: Slots, window: int | None = None, longest: int = 0) -> Iterator[Rule]:
    """Every rule that gives other positions here; `longest` is max_position_embeddings where it is known."""
    bounds = sorted({n for n in (window, longest, *range(1, 65), 127, 255, 511, 1023, 2047, 4095, 8191) if n})
    sizes = sorted({n for n in (window, longest) if n})
    more = [Rule("positions.clamped", f"stops counting at {n}", partial(_at_most, n), RARE) for n in bounds]
    more += [
        Rule("positions.clamped", f"stops counting at {n - 1}", partial(_at_most, n - 1), PLAIN + 1) for n in sizes
    ]
    more += [Rule("positions.wrapped", f"starts again at position {n}", partial(_modulo, n), PLAIN + 1) for n in sizes]
    more += [
        Rule("positions.retained", f"counts {n} tokens of the past at most", partial(_retained, n), PLAIN + 1)
        for n in (window, window - 1)
    ] if window else []  # fmt: skip
    more += [Rule("positions.offset", f"is {n:+d} off", partial(_plus, n), PLAIN + (abs(n) > 1))
             for n in (1, -1, 2, -2, 3, -3, 4, -4)]  # fmt: skip
    more += [Rule("positions.restarted", f"counts from 0 again from slot {n} on", partial(_again_from, n), RARE)
             for n in range(1, min(s.ids.shape[1], 65))]  # fmt: skip
    more += [Rule("positions.pad_id", f"counts no token of id {token}: it is taken for padding", partial(_without_id, token), PLAIN + 1.5)
             for token in (() if s.until is None else np.unique(s.until[s.until >= 0])[:64].tolist())]  # fmt: skip
    for rule in (*_RULES, *more):
        ids = rule.change(s)
        if ids is not None and not np.array_equal(ids, s.ids):
            yield rule


def fitted(ids: Array, actual: Array, known: Array) -> Rule | None:
    """The rule that recorded positions tell where they are `known`: one offset for all, or one for each row."""
    offset = np.where(known, actual - ids, 0)
    if not known.any() or not offset.any():
        return None
    single = offset[known]
    if (single == single[0]).all():
        by = int(single[0])
        return Rule("positions.offset", f"is {by:+d} off", lambda s: s.ids + by, PLAIN + 1)
    rows = [int(offset[b][known[b]][0]) if known[b].any() else 0 for b in range(len(ids))]
    if not all((offset[b][known[b]] == by).all() for b, by in enumerate(rows)):
        return None
    text = ", ".join(f"{by:+d}" for by in rows)
    column = np.array(rows)[:, None]

    def change(s: Slots) -> Array | None:
        return s.ids + column if len(s.ids) == len(column) else None

    return Rule("positions.offset", f"is off by {text} in its batch rows", change, RARE)


def longest_of(site: Site) -> int:
    """max_position_embeddings of the case, 0 where it is not known."""
    return int(site.case.config.max_position_embeddings)


def positions(site: Site) -> Iterator[Hypothesis]:
    """Wrong position ids."""
    observed = observe(site)
    s = slots(site, OPS["position_ids"].truth(site)[0])
    candidates = list(rules(s, site.config.sliding_window, longest_of(site)))
    if observed is not None:
        cells = real(site)
        fit = fitted(observed.truth, observed.actual, np.ones(observed.actual.shape, bool) if cells is None else cells)
        candidates += [] if fit is None else [fit]
    yield from likely(
        site, observed, (Hypothesis(r.name, r.says, r.fix, partial(_renumbered, r), r.rank) for r in candidates)
    )


def _renumbered(rule: Rule, site: Site) -> tuple[Array, None] | None:
    ids = rule.change(slots(site, OPS["position_ids"].truth(site)[0]))
    return None if ids is None else (np.asarray(ids), None)


MISTAKES: Mapping[str, Mistakes] = {
    "position_ids": Mistakes((positions,)),
}
