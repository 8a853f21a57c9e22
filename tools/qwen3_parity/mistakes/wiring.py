"""Wrong wiring of any op: an input slot that reads another tap, or the right tap changed on the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from qwen3_golden import Array, Place, pattern_of
from qwen3_parity.blame.evidence import as_stored
from qwen3_parity.blame.values import made_once
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.mistakes.hypothesis import Hypothesis, OfSite
from qwen3_parity.mistakes.layouts import as_form
from qwen3_parity.mistakes.observed import asks_for_all
from qwen3_parity.mistakes.ranks import COPIED, PLAIN, RARE, Kind, Rank
from qwen3_parity.mistakes.screen import screen
from qwen3_parity.mistakes.slot_changes import changes
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_LAYER = re.compile(r"\.layers\.(\d+)\.")
_CACHED = ("cache", "cache_once")
_STREAM = ("input", "input_layernorm", "attn_residual", "post_attention_layernorm")
_NEAR = 2
"""So many layers on or back a place without a tap may read what belongs to its own layer."""


@dataclass(frozen=True)
class Read:
    """A tap as seen from a site: `offset` layers on or in one `layer` for all, some `back` steps before."""

    pattern: str
    offset: int | None = None
    layer: int | None = None
    back: int = 0

    @property
    def of_one_layer(self) -> bool:
        """Whether it is of the same layer wherever it is read."""
        return self.offset is None and "{layer}" in self.pattern

    def name(self, site: Site) -> str | None:
        """The tap's name, or None when the network has no such layer."""
        if "{layer}" not in self.pattern:
            return self.pattern
        layer = self.layer if self.offset is None else (site.place.layer or 0) + self.offset
        if layer is None or not 0 <= layer < site.config.num_hidden_layers:
            return None
        return self.pattern.replace("{layer}", str(layer))

    def value(self, site: Site) -> tuple[Array, Place] | None:
        """The tap's values with its place."""
        name = self.name(site)
        if name is None or site.step < self.back:
            return None
        place = site.values.place(name)
        try:
            values = None if place is None else site.values.value(name, site.step - self.back)
        except KeyError:  # the case has no weight for it
            return None
        return None if values is None or place is None else (values, place)


def wiring(site: Site) -> Iterator[Hypothesis]:
    """Every tap of the step in every input slot, two slots exchanged, a slot's value changed, the op left out."""
    quick = screen(site)
    reads = list(_reads(site, near=quick is None))
    for slot in range(len(site.inputs)):
        for read in reads:
            yield from _yielded(site, quick, _reading(site, slot, read))
        for guess in changes(site, slot):
            plain = guess[0].rank.kind <= Kind.RARE
            if quick is not None or plain:  # as one of two mistakes it need not look likely by itself
                yield from _yielded(site, None if plain and asks_for_all() else quick, guess)
    for slot in range(len(site.inputs) - 1):
        yield from _yielded(site, quick, _exchanged(site, slot))
    if quick is None:
        yield from _left_out(site)
    else:
        yield from _copies(site, reads)


def rewired(site: Site) -> Iterator[Hypothesis]:
    """The same for one of two mistakes: no change of a slot need look likely by itself."""
    reads = list(_reads(site, near=False))
    for slot in range(len(site.inputs)):
        yield from (guess[0] for read in reads if (guess := _reading(site, slot, read)) is not None)
        yield from (hypothesis for hypothesis, _ in changes(site, slot))
    yield from (guess[0] for slot in range(len(site.inputs) - 1) if (guess := _exchanged(site, slot)) is not None)


_Change = Callable[[Site], "Site | None"]


def _yielded(
    site: Site, quick: Callable[[Site], bool] | None, pair: tuple[Hypothesis, _Change] | None
) -> Iterator[Hypothesis]:
    """The hypothesis, when its change of the site is possible and survives the screen."""
    if pair is None:
        return
    hypothesis, change = pair
    with np.errstate(all="ignore"):
        changed = change(site)
        if changed is not None and (quick is None or quick(changed)):
            yield hypothesis


def _reads(site: Site, *, near: bool) -> Iterator[Read]:
    """The taps that a slot might read: those of the step, of the case, and of the step before; nearest first."""
    layer, own_patterns = site.place.layer, {pattern_of(name) for name in site.names}
    last, beside = site.config.num_hidden_layers - 1, set[tuple[str, int]]()
    for name, step in _known(site):
        place = site.values.place(name)
        back = 0 if made_once(name) else site.step - step
        if place is None or not _readable(site, place, step) or back not in (0, 1) or (name, back) in beside:
            continue
        beside.add((name, back))
        pattern = pattern_of(name)
        if place.layer is None:
            yield Read(pattern, back=back)
        elif layer is None:
            yield Read(pattern, layer=place.layer, back=back)
        elif near and place.stack != site.place.stack:
            if place.layer == last and pattern.endswith(".output"):
                yield Read(pattern, layer=place.layer, back=back)
        elif not near or place.layer == layer or (pattern in own_patterns and abs(place.layer - layer) <= _NEAR):
            yield Read(pattern, offset=place.layer - layer, back=back)
            if place.layer in (0, last) and place.layer != layer:
                yield Read(pattern, layer=place.layer, back=back)


def _readable(site: Site, place: Place, step: int) -> bool:
    """Whether a tap of this step, the one before or the first is none that reads the site's own."""
    near = step in (site.step, site.step - 1, 0)
    return near and place.name != site.place.name and not any(site.place.name in names for names in place.inputs)


def _known(site: Site) -> Iterator[tuple[str, int]]:
    """The taps that were recorded, and those without a tap in the site's group and in its layer's stream."""
    yield from (item.key for item in site.values.recording)
    yield from [key for key, value in site.values.computed.items() if value is not None]
    if site.place.layer is not None:
        yield from ((f"{site.stack}.layers.{site.place.layer}.{leaf}", site.step) for leaf in _STREAM)


def _reading(site: Site, slot: int, read: Read) -> tuple[Hypothesis, _Change] | None:
    """`slot` reads another tap."""
    input_name = site.names[slot]
    if read.name(site) == input_name and not read.back:
        return None

    def change(site: Site) -> Site | None:
        place = site.values.place(site.names[slot]) if slot < len(site.inputs) else None
        tap = read.value(site)
        if place is None or tap is None:
            return None
        values, source = tap
        expected = site.inputs[slot]
        if values.dtype.kind != expected.dtype.kind and "f" in (values.dtype.kind, expected.dtype.kind):
            return None
        fitted = as_form(values, source.axes, expected.shape, place.axes)
        return None if fitted is None or not fitted.any() else _with_input(site, slot, fitted)

    where = read.name(site) or read.pattern
    before = " of the step before" if read.back else ""
    always = ", in every layer" if read.of_one_layer and site.place.layer is not None else ""
    says = f"reads {where}{before} where {input_name} belongs{always}"
    cause = ""
    if where in site.names and not read.back:  # one careless function, wherever it is called
        cause = f"{site.place.op} reads its input {site.names.index(where)} as {slot}"
    name, fix = _name(site, input_name, read), f"read {pattern_of(input_name)}"
    return Hypothesis(name, says, fix, OfSite(change), _rank(site, read), cause=cause), change


def _rank(site: Site, read: Read) -> Rank:
    same = read.pattern == site.place.pattern  # layers that are wrong alike need not read each other
    if (same or site.values.recorded(site.place.name, site.step) is None) and _wrong(site, read):
        return COPIED
    return RARE + read.of_one_layer + (read.back > 0) + min(abs(read.offset or 0), 2)


def _name(site: Site, input_name: str, read: Read) -> str:
    pattern = pattern_of(input_name)
    other_layer = read.pattern == pattern and not read.back
    if site.place.op in _CACHED and other_layer:
        return "cache.other_layer"
    if other_layer:
        return "wiring.other_layer"
    if read.back and read.pattern == pattern:
        return "wiring.previous_step"
    return "wiring.other_input"


def _with_input(site: Site, slot: int, values: Array) -> Site:
    inputs = list(site.inputs)
    inputs[slot] = values
    return replace(site, inputs=tuple(inputs))


def _exchanged(site: Site, slot: int) -> tuple[Hypothesis, _Change] | None:
    """Two neighbouring slots have each other's taps."""
    if site.place.op in ("residual", "position_ids", "embedding"):
        return None  # a sum does not tell

    def change(site: Site) -> Site | None:
        if slot + 1 >= len(site.inputs):
            return None
        first, second = site.inputs[slot], site.inputs[slot + 1]
        if first.shape != second.shape or first.dtype.kind != second.dtype.kind:
            return None
        return _with_input(_with_input(site, slot, second), slot + 1, first)

    says = f"has {site.names[slot]} and {site.names[slot + 1]} exchanged"
    fix = f"the order is {', '.join(map(pattern_of, site.names))}"
    return Hypothesis("wiring.exchanged", says, fix, OfSite(change), RARE + 1), change


def _left_out(site: Site) -> Iterator[Hypothesis]:
    """A place without a tap passes on what it reads, as it stands."""
    if site.inputs and site.inputs[0].dtype.kind == "f" and site.place.op not in (*_CACHED, "copy", "residual"):
        fix = f"compute {site.place.op} of {', '.join(map(pattern_of, site.names))}"
        yield Hypothesis("wiring.skipped", f"is left out: its output is {site.names[0]}", fix, _passed_on, PLAIN + 1)


def _passed_on(site: Site) -> Result | None:
    y, source = site.inputs[0], site.values.place(site.names[0])
    truth = OPS[site.place.op].truth(site)[0]
    fitted = None if source is None else as_form(y, source.axes, truth.shape, site.place.axes)
    return None if fitted is None else (fitted, None)


def _copies(site: Site, reads: list[Read]) -> Iterator[Hypothesis]:
    """The op is left out: its output is another tap bit for bit."""
    actual = site.values.recorded(site.place.name, site.step)
    inputs = [Read(pattern_of(name), offset=0) for name in site.names]
    back = [Read(site.place.pattern, offset=0, back=1)] if site.step else []
    for read in [*inputs, *back, *reads]:
        if site.place.op == "cache_once" and read.back:
            continue  # what was there before is right
        fitted = _copied(site, read)
        if actual is None or fitted is None or fitted.dtype.kind != actual.dtype.kind or actual.dtype.kind == "b":
            continue
        if not _mostly(fitted, actual):
            continue
        name = read.name(site)
        of_input = name in site.names and not read.back
        before = " of the step before" if read.back else ""
        yield Hypothesis(
            _copy_name(site, read, of_input=of_input),
            f"is left out: its output is {name}{before}" if of_input else f"holds {name}{before}, bit for bit",
            f"compute {site.place.op} of {', '.join(map(pattern_of, site.names)) or 'the configuration'}",
            lambda site, read=read: None if (y := _copied(site, read)) is None else (y, None),  # type: ignore[misc]
            COPIED if not of_input and _wrong(site, read) else PLAIN + 1 if of_input else RARE + 1,
        )


def _wrong(site: Site, read: Read) -> bool:
    """Whether a tap is wrong itself: two places that are wrong alike are no copies of each other."""
    name = read.name(site)
    actual = None if name is None else site.values.recorded(name, site.step - read.back)
    source = None if name is None or actual is None else site.values.site(name, site.step - read.back)
    if source is None or actual is None:
        return False
    op = source.place.op
    truth, unit = OPS[op].truth(source)
    if truth.shape != actual.shape:
        return True
    if unit is None:  # a cache is as wrong as what it holds
        return not np.array_equal(truth, actual) or any(_wrong(source, Read(pattern_of(n), 0)) for n in source.names)
    return not (
        np.abs(actual - truth) <= headroom("op", op).max * as_stored(unit, truth, op, source.values.dtype)
    ).all()


def _copy_name(site: Site, read: Read, *, of_input: bool) -> str:
    if of_input:
        return "wiring.skipped"
    if read.pattern == site.place.pattern:
        stale = "cache.stale" if site.place.op in _CACHED else "wiring.previous_step"
        return stale if read.back else "cache.other_layer" if site.place.op in _CACHED else "wiring.other_layer"
    return "wiring.copies"


def _copied(site: Site, read: Read) -> Array | None:
    tap = read.value(site)
    form = site.values.recorded(site.place.name, site.step)
    return None if tap is None or form is None else as_form(tap[0], tap[1].axes, form.shape, site.place.axes)


def _mostly(fitted: Array, actual: Array) -> bool:
    """Whether a good part of the numbers are the same ones (a bug may be in one head), and not a few by chance."""
    same = (fitted == actual) & (actual != 0)
    distinct = len(np.unique(actual[same]))
    return bool(same.mean() > 0.05 and distinct >= min(12, actual.size / 2))
