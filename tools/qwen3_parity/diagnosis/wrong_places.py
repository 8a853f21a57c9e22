"""The wrong taps of a network by their place: a name with the number of its layer left open."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from qwen3_parity.diagnosis.explanation import LAYER
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.findings import Key
from qwen3_parity.slices.judge import Alone
from qwen3_parity.slices.network import Network


def pattern(name: str) -> str:
    """A tap's name with the number of its layer left open."""
    return LAYER.sub("{layer}", name, count=1)


def by_place(alone: Sequence[Alone], cleared: Collection[Key] = ()) -> Iterator[tuple[Fault, list[Alone]]]:
    """Each place with a wrong tap that is not `cleared`, and those taps."""
    groups = dict[str, list[Alone]]()
    for part in alone:
        if not part.verdict.reason and (part.verdict.name, part.verdict.step) not in cleared:
            groups.setdefault(pattern(part.verdict.name), []).append(part)
    for place, parts in groups.items():
        if wrong := [part for part in parts if not part.verdict.passed]:
            passing = tuple(part.verdict for part in parts if part.verdict.passed)
            yield Fault(place, (), tuple(part.verdict for part in wrong), passing), wrong


def passing_values(alone: Sequence[Alone], network: Network) -> frozenset[int]:
    """The values of taps that were judged and are right by themselves."""
    verdicts = (part.verdict for part in alone if not part.verdict.reason and part.verdict.passed)
    return frozenset(network.graph.taps[verdict.name, verdict.step] for verdict in verdicts)
