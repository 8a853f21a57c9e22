"""Tokens for which a candidate chose other experts than the golden: what follows is no longer the same run.

Whether the choice was honest is judged by its regret. What is behind it is judged op by op, and not against the golden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array, Recording, Tensor
from qwen3_parity.slices.network import Network
from qwen3_reference.graph.scope import counted
from qwen3_spec.graph import Graph
from qwen3_spec.slices import chooser


@dataclass(frozen=True)
class Routes:
    """Of each op that chooses: its number, its step, and the tokens `[batch, query]` that it moved."""

    places: Sequence[tuple[int, int, Array]]
    taps: Mapping[tuple[str, int], int]
    steps: Sequence[int]
    notes: tuple[str, ...]

    def before(self, item: Tensor) -> dict[int, Array]:
        """By step: the tokens `[batch, query]` that an earlier other choice may have moved at a tap."""
        moved = dict[int, Array]()
        for maker, step, tokens in self.places:
            if maker > self.taps.get(item.key, -1):
                continue
            if step == item.info.step:
                moved[step] = moved.get(step, np.zeros_like(tokens)) | tokens
            elif tokens.any():  # through a cache every later token of the row
                rows = np.repeat(tokens.any(1, keepdims=True), self.steps[item.info.step], axis=1)
                moved[item.info.step] = moved.get(item.info.step, np.zeros_like(rows)) | rows
        return moved


def routes(graph: Graph, golden: Recording, candidate: Recording, net: Network | None = None) -> Routes:
    """The tokens of each choice that is another set than the golden's, and all that come behind them in their row.

    With a network a choice that the candidate did not record is the reference's, on the candidate's own numbers.
    """
    places, count, of = list[tuple[int, int, Array]](), 0, 0
    for item in golden:
        value, recorded = graph.taps.get(item.key), candidate.get(*item.key)
        maker = None if value is None else chooser(graph, value)
        if value is None or maker is None:
            continue
        actual = None if recorded is None else recorded.array
        if actual is None and net is not None:
            actual = _chosen(value, net)
        by_token = item.info.axes[:1] == ["row"] or item.info.axes[:2] == ["batch", "query"]
        if actual is None or actual.shape != item.array.shape or not by_token:
            continue
        counts = counted(item, golden)
        rerouted = ((np.sort(actual, -1) != np.sort(item.array, -1)) & counts).any(-1).reshape(_batch(golden), -1)
        count, of = count + int(rerouted.sum()), of + int(counts.any(-1).sum())
        places.append((maker, item.info.step, np.maximum.accumulate(rerouted, axis=1)))
    others = "others than the golden's" if net is None else "others than the golden's by the candidate's own numbers"
    note = f"{count} of {of} choices are {others}: what follows them is judged op by op alone"
    return Routes(places, graph.taps, golden.case.steps, (note,) if count else ())


def _chosen(value: int, net: Network) -> Array | None:
    """What the reference chooses on the candidate's numbers; None where these say nothing of it, or are not finite."""
    reads = net.slices.reads(value)
    if not reads or any(read in net.broken for read in reads):
        return None
    return np.asarray(net.slices.value(value))


def _batch(golden: Recording) -> int:
    first = next(item for item in golden if item.info.name.startswith("input."))
    return int(first.array.shape[0])
