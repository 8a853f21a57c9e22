"""Places of a graph that are right by the weights that the candidate loaded, which are not the checkpoint's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.as_held import in_words
from qwen3_parity.diagnosis.explained import REFERENCE, Explained
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.findings import Key
from qwen3_parity.diagnosis.findings.structure.weights import UNKNOWN
from qwen3_parity.mistakes.parameters import held_rows
from qwen3_parity.mistakes.ranks import COMBINED
from qwen3_parity.slices.check import Judged, judged_by_graph
from qwen3_parity.slices.network import Network

_FIX = "load the checkpoint's numbers as they are stored"


def right_as_held(faults: Sequence[Explained], judged: Judged, weights: Mapping[str, Array]) -> list[Explained]:
    """The faults, those that no mistake explains wholly with the loaded weights, where these make their taps right.

    All ops are judged once more, by the numbers that the candidate's recording has of its weights.
    """
    network = judged.network
    puzzling = [fault for fault in faults if fault.left or not fault.is_known]
    if network is None or not puzzling:
        return [*faults]
    held = {name: rows for name in network.graph.parameters if (rows := _whole(name, network)) is not None}
    if not held:
        return [*faults]
    again = judged_by_graph(network.golden, network.candidate, {**weights, **held}, partial=True).alone
    shares = {(part.verdict.name, part.verdict.step): part.verdict.share for part in again if part.verdict.passed}
    return [_as_held(fault, network, held, shares) if fault in puzzling else fault for fault in faults]


def _whole(name: str, network: Network) -> Array | None:
    rows = held_rows(name, network.candidate)
    stored = network.slices.leaves[network.graph.leaves[name]]
    return None if rows is None or rows.shape != np.shape(stored) else np.asarray(rows, np.float32)


def _as_held(fault: Explained, network: Network, held: Mapping[str, Array], shares: Mapping[Key, float]) -> Explained:
    taps = tuple((verdict.name, verdict.step) for verdict in fault.fault.wrong)
    loaded = {name: np.asarray(held[name], np.float64) for name in parameters_of(taps, network) if name in held}
    if not loaded or not shares.keys() >= {*taps}:
        return fault
    graph = network.graph
    tensors = {name: network.slices.leaves[graph.leaves[name]] for name in graph.parameters}
    name, says = in_words(loaded, tensors)
    if name == UNKNOWN:
        return fault
    share, count = max(shares[tap] for tap in taps), len(taps)
    loads = Explanation(name, says, _FIX, fault.fault.place, share, count, 0, count, 0, rank=COMBINED, taps=taps)
    lines = [finding for finding in fault.findings if finding.name == REFERENCE]
    return replace(fault, explanations=[loads], findings=lines, stopped=False, cut=False, tried=taps, untried=0)


def parameters_of(taps: Iterable[Key], network: Network) -> list[str]:
    """The parameters that taps read beside the nearest recorded values, in the graph's order."""
    graph = network.graph
    nodes = (graph.node(node) for tap in taps for node in network.slices.order(graph.taps[tap]))
    leaves = {read for node in nodes if node is not None for read in node.reads}
    return [name for name in graph.parameters if graph.leaves[name] in leaves]
