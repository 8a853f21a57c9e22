"""Where the numbers of a wrong tap may come from: what belongs elsewhere in it, other taps, the request before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.provenance.form import PLACE, Form, form_of
from qwen3_parity.diagnosis.findings.wrong_tap import Key, WrongTap

_MOST = 1 << 22
"""Numbers that are looked at in all; the nearest taps come first."""
_CLOSE = 0.2
"""An error of this part of the size leaves a place of a later step its own."""
_LAYER = re.compile(r"(?<=\.)(\d+)(?=\.|\[|#|$)")


@dataclass(frozen=True)
class Source:
    """Numbers with their form; `says` what they are, at a place; `kind` is the finding's, "" for the tap's truth.

    `golden` are those that stand there in the golden, where that is known; `key` is the recorded tap that it is.
    `drifts`: a candidate has such numbers with its own roundings.
    """

    kind: str
    says: str
    values: Array = field(repr=False)
    form: Form
    golden: Array | None = field(default=None, repr=False)
    key: Key | None = None
    drifts: bool = False


def sources(tap: WrongTap) -> list[Source]:
    """The nearest first: the tap's truth, what it reads, the request before, other steps and layers, other taps.

    Of the run only what was computed before the tap, as what follows from it has its numbers by right, and of its own
    later steps the places that hold what belongs there.
    """
    taken, most = list[Source](), _MOST
    for source in _every(tap):
        most -= source.values.size
        if most < 0:
            break
        taken.append(source)
    return taken


def _every(tap: WrongTap) -> Iterator[Source]:
    form = form_of(tap.axes, tap.truth.shape)
    yield Source("", f"what belongs in {PLACE}", tap.truth, form)
    earlier = _earlier(tap)
    alike = like(tap, tap.name)
    reads = [key for key in tap.reads if key in earlier]
    for key in reads:
        yield from recorded(tap, key)
    yield from _of_request(tap)
    for key in alike:
        yield from recorded(tap, key)
    yield from _of_golden(tap, form)
    for key in _steps(tap):
        if key not in earlier:
            yield from _own_places(recorded(tap, key))
    known = {*reads, *alike}
    for key in reversed(earlier):
        if key not in known and not key[0].startswith("input."):
            yield from recorded(tap, key)


def looked_at(tap: WrongTap, taken: Sequence[Source]) -> str:
    """Where numbers were looked up, in words: in all steps of the tap, in those up to its own, or in a part of them."""
    whole = {source.key for source in taken if source.key is not None and not np.isnan(source.values).any()}
    others = {key for key in tap.keys if key[0] == tap.name and key != tap.key} - whole
    if not others:
        return "in this recording"
    return "in this recording up to this step" if others.isdisjoint(_earlier(tap)) else "in what was looked at"


def _steps(tap: WrongTap) -> list[Key]:
    """The steps of a tap, of one that does not hold the steps before in it."""
    return [] if tap.name.startswith("cache.") or is_cache(tap) else [key for key in tap.keys if key[0] == tap.name]


def _own_places(later: Iterator[Source]) -> Iterator[Source]:
    """Later steps without the places that are wrong themselves, which may have the same mistake."""
    for source in later:
        if source.golden is not None:
            formed, golden = source.form.of(source.values), source.form.of(source.golden)
            size, error = (np.mean(np.square(part), axis=(2, 3), keepdims=True) for part in (golden, formed - golden))
            values = np.where(error < _CLOSE**2 * size, formed, np.nan)
            yield replace(source, values=values, form=replace(source.form, order=(0, 1, 2, 3)), golden=golden)


def _of_golden(tap: WrongTap, form: Form) -> Iterator[Source]:
    """What the golden has in a cache: what belongs there may have been lost at a step before."""
    values = tap.golden(*tap.key) if is_cache(tap) else None
    if values is not None and values.shape == tap.truth.shape:
        yield Source("", f"what the golden has in {PLACE}", values, form, drifts=True)


def _earlier(tap: WrongTap) -> list[Key]:
    keys = list(tap.keys)
    return keys[: keys.index(tap.key)] if tap.key in keys else []


def like(tap: WrongTap, name: str) -> list[Key]:
    """The taps before a tap that are another one's in any layer and step, the nearest first."""

    def far(key: Key) -> tuple[int, int]:
        layers, steps = abs(layer_of(key[0]) - layer_of(name)), tap.step - key[1]
        return layers + steps, layers

    return sorted((key for key in _earlier(tap) if _pattern(key[0]) == _pattern(name)), key=far)


def recorded(tap: WrongTap, key: Key, of: str = "") -> Iterator[Source]:
    """A recorded tap of floats, if its axes are known; its kind is told by the name `of`, the tap's by default."""
    of = of or tap.name
    kind = "other_step" if key[0] == of else "other_layer" if _pattern(key[0]) == _pattern(of) else "other_tap"
    values, axes = tap.recorded(*key), tap.axes_of(*key)
    if values is not None and values.dtype.kind == "f" and values.ndim == len(axes):
        name = "this tap" if key[0] == tap.name else key[0]
        when = "" if key[1] == tap.step else f" of step {key[1]}"
        golden = tap.golden(*key)
        golden = None if golden is None or golden.shape != values.shape else golden
        yield Source(kind, f"{name}{when}, at {PLACE}", values, form_of(axes, values.shape), golden, key)


def _of_request(tap: WrongTap) -> Iterator[Source]:
    """The same tap of the request before; of a cache the last step alone, which has every slot."""
    items = [] if tap.before is None else [item for item in tap.before if item.info.name == tap.name]
    for item in items[-1:] if is_cache(tap) else items:
        values = item.values()
        if values.dtype.kind == "f" and values.ndim == len(tap.axes):
            says = f"the request before's {tap.name.rpartition('.')[2]} (step {item.info.step}), at {PLACE}"
            yield Source("earlier_request", says, values, form_of(tap.axes, values.shape), drifts=True)


def is_cache(tap: WrongTap) -> bool:
    """Whether a tap is a cache of keys or values, slot by slot."""
    return "key" in tap.axes and (tap.name.startswith("cache.") or tap.name.rpartition(".")[2].startswith("cache_"))


def _pattern(name: str) -> str:
    return _LAYER.sub("*", name, count=1)


def layer_of(name: str) -> int:
    number = _LAYER.search(name)
    return int(number.group(1)) if number else 0
