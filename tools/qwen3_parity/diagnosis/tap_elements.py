"""The errors of single taps, element by element, in rounding units of their ops where those can be computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pb, place
from qwen3_parity.blame.op_case import network_of
from qwen3_parity.blame.tap_judge import TapJudge, expected
from qwen3_parity.judge.conventions import conventional
from qwen3_parity.judge.elements import Elements, elements
from qwen3_parity.judge.scope import Scope
from qwen3_parity.slices.judge import judge
from qwen3_parity.slices.network import network
from qwen3_parity.slices.ordered import in_golden_order
from qwen3_parity.slices.run import computing
from qwen3_parity.slices.stored import graph_of
from qwen3_reference.graph.scope import counted

_LARGE = 1 << 22
"""Elements from which on an op is not computed once more for a picture; its errors are counted in ULPs."""


def elements_of(
    golden: Recording, candidate: Recording, keys: Sequence[tuple[str, int]], weights: Mapping[str, Array] | None
) -> dict[tuple[str, int], Elements]:
    """The errors of the taps `keys` (name, step) against the golden; those without a counterpart of their shape are
    left out.

    Counted in rounding units on the candidate's own inputs with the case's `weights`, or where an op's case brings what
    is needed; in ULPs otherwise.
    """
    if golden.case.mode == pb.GRAPH:
        return dict(_by_graph(golden, candidate, keys, weights))
    candidate = conventional(candidate, golden).recording
    scope, alone = Scope(golden), _Alone(golden, candidate, weights)
    by_key = {}
    for key, golden_tap, ours in _alike(golden, candidate, keys):
        judged = scope.judged(golden_tap, place(key[0], golden.case.config.num_hidden_layers))
        by_key[key] = elements(ours, golden_tap, judged, alone.units(ours))
    return by_key


def _alike(
    golden: Recording, candidate: Recording, keys: Sequence[tuple[str, int]]
) -> Iterator[tuple[tuple[str, int], Tensor, Tensor]]:
    """The taps that both have in one shape, with elements."""
    for key in keys:
        golden_tap, ours = golden.get(*key), candidate.get(*key)
        if golden_tap is None or ours is None or golden_tap.array.shape != ours.array.shape:
            continue
        if golden_tap.array.size:
            yield key, golden_tap, ours


def _by_graph(
    golden: Recording, candidate: Recording, keys: Sequence[tuple[str, int]], weights: Mapping[str, Array] | None
) -> Iterator[tuple[tuple[str, int], Elements]]:
    candidate = in_golden_order(graph_of(golden.graph, golden.source), golden, candidate)
    net = None if weights is None else network(golden, candidate, weights)
    for key, golden_tap, ours in _alike(golden, candidate, keys):
        counts = counted(golden_tap, golden)
        with computing(golden.source):
            cells = None if net is None else judge(ours, golden_tap, counts, net).cells
        yield key, elements(ours, golden_tap, counts, cells)


class _Alone:
    """The run, or an op's case as a run of one layer, whose taps are computed again."""

    def __init__(self, golden: Recording, candidate: Recording, weights: Mapping[str, Array] | None) -> None:
        self._judge: TapJudge | None = None
        self._names: Mapping[str, str] = {}
        if golden.case.mode == pb.OP:
            network = network_of(golden, candidate)
            if network is not None:
                self._judge = TapJudge.of(network.recording, network.weights, network.recording)
                self._names = {case: tap for tap, case in network.names.items()}
        elif weights is not None and golden.case.mode not in (pb.PLUMBING, pb.TOKENIZATION):
            self._judge = TapJudge.of(candidate, weights, golden)

    def units(self, item: Tensor) -> Array | None:
        """The errors of a tap in rounding units, or None where its op cannot be computed."""
        if self._judge is None or item.array.size > _LARGE:
            return None
        name, values = self._names.get(item.info.name, item.info.name), self._judge.values
        recorded = next((tensor for tensor in values.recording if tensor.info.name == name), None)
        tap = item if not self._names else recorded
        tap_place = None if tap is None else values.place(tap.info.name)
        if tap is None or tap_place is None or tap_place.op == "input":
            return None
        evidence = self._judge.another().evidence(tap)
        if isinstance(evidence, str):
            return None
        try:
            errors = evidence.errors(expected(evidence))
        except (ValueError, IndexError):  # what NumPy raises for shapes that do not fit each other
            return None
        return None if errors is None or errors.shape != item.array.shape else np.asarray(errors)
