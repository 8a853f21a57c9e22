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
    places: dict[Key, Place] = {}
    for number, item in enumerate(expected):
        layer, step = _layer(item.info.name), item.info.step
        if last and step > max(last):
            places[item.key] = ("step", step)
        elif layer is not None and step in last and (layer, step) not in begun and number > last[step]:
            places[item.key] = layer
    return places


def in_words(places: Iterable[Place]) -> Iterator[str]:
    """As "decoder.layers 1–2" and "step 3–4"."""
    numbers: dict[str, set[int]] = {}
    for kind, number in places:
        numbers.setdefault(kind, set()).add(number)
    yield from (f"{kind} {ranges(sorted(members), most=None)}" for kind, members in numbers.items())


def _layer(name: str) -> Place | None:
    match = _LAYER.match(name)
    return (match[1], int(match[2])) if match else None
