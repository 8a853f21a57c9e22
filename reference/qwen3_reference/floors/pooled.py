"""The floors of small taps, whose error in one run is a matter of luck: those of all steps together."""

from __future__ import annotations

from collections.abc import Mapping

from qwen3_golden import pb
from qwen3_reference.floors.arithmetics import larger
from qwen3_spec.sweep import Key

_POOLED_BELOW = 500
"""Elements: the error of a smaller tap is a matter of luck, so the largest of all steps counts."""


def pooled(
    floors: dict[Key, pb.Floor], sizes: Mapping[Key, int], scales: Mapping[Key, tuple[float, float]]
) -> dict[Key, pb.Floor]:
    """The floors of small taps: each, in units of the step's own scale, the largest of all steps.

    Absolute floors would let one loud step excuse everything in a quiet one (a token whose embedding is tiny).
    """
    small = {name for (name, _), size in sizes.items() if size < _POOLED_BELOW}
    shares: dict[str, list[pb.Floor]] = {}
    for key, floor in floors.items():
        if key[0] in small and all(scales[key]):
            rms, largest = scales[key]
            shares.setdefault(key[0], []).append(_times(floor, 1 / rms, 1 / largest))
    widened = dict(floors)
    for key, floor in floors.items():
        if key[0] in shares:
            widened[key] = larger([floor, _times(larger(shares[key[0]]), *scales[key])])
    return widened


def _times(floor: pb.Floor, rms: float, largest: float) -> pb.Floor:
    return pb.Floor(rms=floor.rms * rms, max=floor.max * largest, row=floor.row * rms, head=floor.head * rms)
