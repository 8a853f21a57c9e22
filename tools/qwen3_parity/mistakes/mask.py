"""Wrong masks: each part right or wrong in a known way, alone and together, and mistakes with the mask as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Compute, Hypothesis, Mistakes
from qwen3_parity.mistakes.mask_memory import MEMORY
from qwen3_parity.mistakes.mask_near import NEAR
from qwen3_parity.mistakes.mask_padding import MISREAD, OWN, by_id, fitted
from qwen3_parity.mistakes.mask_parts import Rule, Slots, slots
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.requests import earlier_input
from qwen3_spec import ops
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_MOST = 80
"""Combinations that are handed on, those with the fewest mistakes first."""
_FIX = {
    "mask.earlier_request": "make each request's mask of its own attention_mask: keep none for the next request",
    "mask.memory": "the encoder's keys are visible to every query unless they are the encoder's padding",
    "mask.window": "0 <= query - key < window in the decoder, |query - key| <= window in the encoder, in slots",
    "mask.given": "the mask that is given says of each query and key whether it is visible: take it as it stands",
    "mask.pad": "hide the keys whose attention_mask is 0, whatever their id",
    "mask": "the decoder sees key slots up to the query's own, the encoder sees both sides; padding hides keys",
}


def mask(site: Site) -> Iterator[Hypothesis]:
    """Masks with wrong parts that give exactly what was recorded at this site, and wrong masks as a whole."""
    for hypothesis in _masks(site):
        yield replace(hypothesis, fix=_window_fix(site)) if hypothesis.name.startswith("mask.window") else hypothesis


def _window_fix(site: Site) -> str:
    """Which keys a window lets a query see, by the configuration's keys and numbers."""
    width = site.config.sliding_window
    if width is None:
        return "no layer has a window: sliding_window is not set"
    layers = [str(i) for i in range(site.config.num_hidden_layers) if site.config.window(i) is not None]
    return (
        f"{_FIX['mask.window']}, with sliding_window {width}, in the layers that layer_types calls sliding_attention "
        f"({', '.join(layers) or 'none'}), and in no other"
    )


def _masks(site: Site) -> Iterator[Hypothesis]:
    yield from _whole(site)
    actual = site.values.recorded(site.place.name, site.step)
    if _is_given(site):  # a mask that is given has no parts
        return
    if actual is None:
        yield from _hidden(site)
        return
    s = slots(site)
    total = s.real.shape[1]
    width = total + (0 if s.memory is None else s.memory.shape[1])
    if actual.shape != (s.real.shape[0], s.length, width):
        return
    judged = np.broadcast_to(s.real[:, s.past :, None], actual.shape)
    own_rules = list(_own_half(s, actual[..., :total], judged[..., :total]))
    memory: list[Rule | None] = [None]
    if s.memory is not None:
        rules = (*MEMORY, *by_id(s, memory=True))
        memory = [rule for rule in rules if _same(rule.visible(s), actual[..., total:], judged[..., total:])]
    combinations = sorted(product(own_rules, memory), key=lambda pair: _rank([*pair[0], pair[1]]))
    # Mistakes that differ in rows of padding alone are told apart by those, though they are not judged.
    for (near, padding), theirs in combinations[:_MOST]:
        parts = [rule for rule in (near, padding, theirs) if rule is not None and rule.name]
        if parts:
            found_here = _hypothesis(parts, near, padding, theirs)
            result = found_here.compute(site)
            exact = result is not None and np.array_equal(result[0], actual)
            yield found_here if exact else replace(found_here, rank=found_here.rank + 1)


def _hidden(site: Site) -> Iterator[Hypothesis]:
    """Of a mask that was not recorded: one part wrong, or the padding of both halves misread in the same way."""
    s = slots(site)
    memory = None if s.memory is None else MEMORY[0]
    for near in NEAR[1:]:
        yield _hypothesis([near], near, OWN[0], memory)
    for padding in (*OWN[1:], *by_id(s, memory=False)):
        yield _hypothesis([padding], NEAR[0], padding, memory)
    if memory is None:
        return
    for theirs in (*MEMORY[1:], *by_id(s, memory=True)):
        yield _hypothesis([theirs], NEAR[0], OWN[0], theirs)
    for padding, theirs in zip(OWN[1 : len(MISREAD) + 1], MEMORY[1:], strict=False):
        yield _hypothesis([replace(padding, says=f"{padding.says}, the encoder's too")], NEAR[0], padding, theirs)


def _own_half(s: Slots, actual: Array, judged: Array) -> Iterator[tuple[Rule, Rule]]:
    """The pairs of rules that give the stack's own half of the mask."""
    near = _different(s, (*NEAR, *_windows(s, actual, judged)), judged)
    padding = _different(s, (*OWN, *by_id(s, memory=False)), judged)
    for (near_rule, cells), (padding_rule, keys) in product(near, padding):
        if cells is not None and keys is not None and _same(cells & keys, actual, judged):
            yield near_rule, padding_rule


def _different(s: Slots, rules: Sequence[Rule], judged: Array) -> list[tuple[Rule, Array | None]]:
    """The right rule, the first of them, and those that give something else here."""
    cells = [(rule, rule.visible(s)) for rule in rules]
    expected = cells[0][1]
    assert expected is not None
    return [cells[0], *((rule, visible) for rule, visible in cells[1:] if not _same(visible, expected, judged))]


def _windows(s: Slots, actual: Array, judged: Array) -> Iterator[Rule]:
    """The window that the farthest visible key tells, when it is none of the known wrong ones."""
    distances = np.broadcast_to(s.distance, actual.shape)[actual.astype(bool) & judged]
    if not len(distances):
        return
    bound = int(np.abs(distances).max() if s.encoder else distances.max() + 1)

    def visible(s: Slots) -> Array:
        if s.encoder:
            return np.asarray(np.abs(s.distance) <= bound)
        return np.asarray((s.distance >= 0) & (s.distance < bound))

    yield Rule("mask.window_size", f"has a window of {bound} in place of {s.window or 'none'}", visible, 2)


def _same(visible: Array | None, actual: Array, judged: Array) -> bool:
    return visible is not None and bool(np.all((visible == actual) | ~judged))


def _rank(parts: Sequence[Rule | None]) -> Rank:
    wrong = [rule for rule in parts if rule is not None and rule.name]
    return PLAIN + sum(rule.steps for rule in wrong) + 3 * max(len(wrong) - 1, 0)


def _hypothesis(parts: Sequence[Rule], near: Rule, padding: Rule, memory: Rule | None) -> Hypothesis:
    def compute(site: Site) -> Result | None:
        s = slots(site)
        cells, keys = near.visible(s), padding.visible(s)
        if cells is None or keys is None:
            return None
        shape = (s.real.shape[0], s.length, s.real.shape[1])
        own_half = np.broadcast_to(cells & keys, shape)
        if s.memory is None:
            return own_half, None
        theirs = None if memory is None else memory.visible(s)
        if theirs is None:
            return None
        theirs = np.broadcast_to(theirs, (*shape[:2], s.memory.shape[1]))
        return np.concatenate([own_half, theirs], axis=-1), None

    says = " and ".join(rule.says for rule in parts)
    return Hypothesis(parts[0].name, says, _fix(parts[0].name), compute, _rank(parts))


def _fix(name: str) -> str:
    return next(text for prefix, text in _FIX.items() if name.startswith(prefix))


MaskChange = Callable[[Array, Site], "Array | None"]
"""The right mask `[batch, query, key]` and its site to a wrong one; None where there is none."""


def _changed(change: MaskChange) -> Compute:
    """The right mask, changed as a whole."""

    def compute(site: Site) -> Result | None:
        truth, _ = OPS["mask"].truth(site)
        changed = change(truth, site)
        return None if changed is None else (changed, None)

    return compute


def _halves(truth: Array, site: Site) -> Array | None:
    """The encoder's columns first."""
    if len(site.inputs) < 2:
        return None
    own_length = truth.shape[2] - site.inputs[1].shape[1]
    return np.concatenate([truth[..., own_length:], truth[..., :own_length]], axis=-1)


def _truth_of(site: Site, name: str, step: int) -> Array | None:
    """The right mask of another layer or step: a recorded one may be wrong in the same way as the site's."""
    of = site.values.site(name, step) if step >= 0 else None
    return None if of is None else OPS["mask"].truth(of)[0]


def _before(truth: Array, site: Site, *, new: bool, back: int = 1) -> Array | None:
    """The last row of a step before for every query, its missing columns `new`."""
    before = _truth_of(site, site.place.name, site.step - back)
    if before is None:
        return None
    memory = site.inputs[1].shape[1] if len(site.inputs) > 1 else 0
    added = truth.shape[2] - before.shape[2]
    if added < 0:
        return None
    row = before[:, -1:]
    filler = np.full((*row.shape[:2], added), new)
    own_length = row.shape[2] - memory
    wide = np.concatenate([row[..., :own_length], filler, row[..., own_length:]], axis=-1)
    return np.broadcast_to(wide, truth.shape)


def _first(truth: Array, site: Site, *, new: bool) -> Array | None:
    """The same of the first step, whose mask each later one was made from."""
    return _before(truth, site, new=new, back=site.step) if site.step > 1 else None


def _rebuilt(truth: Array, site: Site) -> Array | None:
    """The causal mask of the same slots."""
    return (
        np.broadcast_to(ops.mask.causal(site.length, site.stop - site.length), truth.shape) if _is_given(site) else None
    )


def _is_given(site: Site) -> bool:
    """Whether the case is given who sees whom, in the place of padding."""
    return site.inputs[0].ndim == 3


def _other_layer(truth: Array, site: Site, layer: int) -> Array | None:
    prefix, _, rest = site.place.name.partition(".layers.")
    name = f"{prefix}.layers.{layer}.{rest.partition('.')[2]}"
    layer_mask = None if layer == site.place.layer else _truth_of(site, name, site.step)
    return None if layer_mask is None or layer_mask.shape != truth.shape else layer_mask


def _earlier(_: Array, site: Site, stack: str) -> Array | None:
    """The mask by the padding of the request before, of one stack's keys or ("") of all."""
    inputs = list(site.inputs)
    for slot, name in enumerate(site.names):
        before = earlier_input(site, name) if f"input.{stack}" in name else None
        if before is not None:
            same = before.shape == inputs[slot].shape
            if len(before) != len(inputs[slot]) or before.ndim != inputs[slot].ndim or not (same or before.ndim == 2):
                return None
            inputs[slot] = before if same else fitted(before.astype(bool), inputs[slot].shape[1])
    return OPS["mask"].truth(replace(site, inputs=tuple(inputs)))[0]


def _without_padding(_: Array, site: Site) -> Array | None:
    """The rule alone, where both stacks have padding masks: one side's is in the table of each."""
    if sum(name.endswith("attention_mask") for name in site.names) < 2 or _is_given(site):
        return None
    shown = zip(site.names, site.inputs, strict=True)
    inputs = tuple(np.ones_like(x) if name.endswith("attention_mask") else x for name, x in shown)
    return OPS["mask"].truth(replace(site, inputs=inputs))[0]


WHOLE: tuple[tuple[str, str, MaskChange, Rank], ...] = (
    ("mask.earlier_request", "hides the padding of the request before, not of its own",
     lambda m, s: _earlier(m, s, ""), PLAIN),
    ("mask.earlier_request", "hides the encoder's padding of the request before, not of its own",
     lambda m, s: _earlier(m, s, "encoder"), PLAIN),
    ("mask.earlier_request", "hides the decoder's padding of the request before, not of its own",
     lambda m, s: _earlier(m, s, "decoder"), PLAIN),
    ("mask.padding_ignored", "ignores padding, the encoder's too", _without_padding, PLAIN),
    ("mask.none", "shows every key to every query", lambda m, _: np.ones_like(m), PLAIN + 1),
    ("mask.keys_hidden", "hides every key", lambda m, _: np.zeros_like(m), PLAIN + 1),
    ("mask.inverted", "shows what should be hidden and hides what should be seen", lambda m, _: ~m, PLAIN),
    ("mask.other_row", "uses the mask of the batch row before", lambda m, _: np.roll(m, 1, 0), PLAIN + 1),
    ("mask.other_row", "uses the mask of the batch row behind", lambda m, _: np.roll(m, -1, 0), PLAIN + 1),
    ("mask.other_row", "uses the first batch row's mask for every row",
     lambda m, _: np.broadcast_to(m[:1], m.shape), PLAIN + 1),
    ("mask.other_row", "uses the batch rows' masks in reverse order", lambda m, _: m[::-1], PLAIN + 1),
    ("mask.halves_exchanged", "has the encoder's columns before the decoder's", _halves, PLAIN),
    ("mask.given_ignored", "is causal, whatever the mask that is given says", _rebuilt, PLAIN),
    ("mask.given_causal", "shows no later key, though the mask that is given does",
     lambda m, s: m & ops.mask.causal(s.length, s.stop - s.length) if _is_given(s) else None, PLAIN),
    ("mask.transposed", "has queries and keys exchanged",
     lambda m, _: np.swapaxes(m, 1, 2) if m.shape[1] == m.shape[2] else None, PLAIN + 1),
    ("mask.reversed", "has the keys in reverse order", lambda m, _: m[..., ::-1], RARE),
    ("mask.shifted", "has its columns one to the right", lambda m, _: np.roll(m, 1, 2), RARE),
    ("mask.shifted", "has its columns one to the left", lambda m, _: np.roll(m, -1, 2), RARE),
    ("mask.query_repeated", "uses the first query's row for every query",
     lambda m, _: np.broadcast_to(m[:, :1], m.shape), RARE),
    ("mask.query_repeated", "uses the last query's row for every query",
     lambda m, _: np.broadcast_to(m[:, -1:], m.shape), RARE),
    ("wiring.previous_step", "uses the mask of the step before, new keys visible",
     lambda m, s: _before(m, s, new=True), PLAIN + 1),
    ("wiring.previous_step", "uses the mask of the step before, new keys hidden",
     lambda m, s: _before(m, s, new=False), RARE + 1),
    ("wiring.previous_step", "goes on with the mask of the first step, new keys visible",
     lambda m, s: _first(m, s, new=True), PLAIN + 1),
    ("wiring.previous_step", "goes on with the mask of the first step, new keys hidden",
     lambda m, s: _first(m, s, new=False), PLAIN + 1),
    ("mask.other_layer", "uses the first layer's mask", lambda m, s: _other_layer(m, s, 0), RARE + 1),
)  # fmt: skip
"""Mistakes with a mask as a whole: name, what is wrong, the change, rank."""


def _whole(site: Site) -> Iterator[Hypothesis]:
    for name, says, change, rank in WHOLE:
        yield Hypothesis(name, says, _fix(name) if name.startswith("mask") else _FIX["mask"], _changed(change), rank)


MISTAKES: Mapping[str, Mistakes] = {
    "mask": Mistakes((mask,)),
}
