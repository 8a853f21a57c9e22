"""What a port in progress has not built yet: layers behind its last one, steps behind its last one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from qwen3_golden import Recording
from qwen3_parity.judge.indices import ranges

Key = tuple[str, int]
Place = tuple[str, int]
"""A stack of layers, or "step", with a number."""
_LAYER = re.compile(r"(.*?layers)\.(\d+)\.")


def unreached(expected: Recording, delivered: Collection[Key]) -> dict[Key, Place]:
    """The golden's taps in layers of which nothing was delivered, behind all that was, and in steps behind the last.

    `delivered` are the candidate's taps, inputs left out. A layer, or a step, of which one tap is there is begun, and
    what it lacks is missing.
    """
    begun = {(_layer(name), step) for name, step in delivered}
    last = {item.info.step: number for number, item in enumerate(expected) if item.key in delivered}
    found: dict[Key, Place] = {}
    for number, item in enumerate(expected):
        layer, step = _layer(item.info.name), item.info.step
        if last and step > max(last):
            found[item.key] = ("step", step)
        elif layer is not None and step in last and (layer, step) not in begun and number > last[step]:
            found[item.key] = layer
    return found


def in_words(places: Iterable[Place]) -> Iterator[str]:
    """As "decoder.layers 1–2" and "step 3–4"."""
    numbers: dict[str, set[int]] = {}
    for what, number in places:
        numbers.setdefault(what, set()).add(number)
    yield from (f"{what} {ranges(sorted(some), most=None)}" for what, some in numbers.items())


def _layer(name: str) -> Place | None:
    found = _LAYER.match(name)
    return (found[1], int(found[2])) if found else None
