"""Places of a graph that are right by the weights that the candidate loaded, which are not the checkpoint's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.as_held import held_whole, in_words
from qwen3_parity.diagnosis.explained import REFERENCE, Explained
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.findings import Key
from qwen3_parity.diagnosis.findings.structure.weights import UNKNOWN
from qwen3_parity.mistakes.as_loaded import LOAD
from qwen3_parity.mistakes.ranks import COMBINED
from qwen3_parity.slices.check import Judged, judged_by_graph
from qwen3_parity.slices.network import Network


def right_as_held(faults: Sequence[Explained], judged: Judged, weights: Mapping[str, Array]) -> list[Explained]:
    """The faults, those that no mistake explains wholly with the loaded weights, where these make their taps right.

    All ops are judged once more, by the numbers that the candidate's recording has of its weights.
    """
    network = judged.network
    puzzling = [fault for fault in faults if fault.left or not fault.is_known]
    if network is None or not puzzling:
        return [*faults]
    held = held_whole(network.graph.parameters, network)
    if not held:
        return [*faults]
    loaded = {name: np.asarray(rows, np.float32) for name, rows in held.items()}
    again = judged_by_graph(network.golden, network.candidate, {**weights, **loaded}, partial=True).alone
    shares = {(part.verdict.name, part.verdict.step): part.verdict.share for part in again if part.verdict.passed}
    return [_as_held(fault, network, held, shares) if fault in puzzling else fault for fault in faults]


def _as_held(fault: Explained, network: Network, held: Mapping[str, Array], shares: Mapping[Key, float]) -> Explained:
    taps = tuple((verdict.name, verdict.step) for verdict in fault.fault.wrong)
    read = network.parameters_of(network.graph.taps[tap] for tap in taps)
    loaded = {name: held[name] for name in read if name in held}
    if not loaded or not shares.keys() >= {*taps}:
        return fault
    name, says = in_words(loaded, {name: network.parameter(name) for name in network.graph.parameters})
    if name == UNKNOWN:
        return fault
    share, count = max(shares[tap] for tap in taps), len(taps)
    loads = Explanation(name, says, LOAD, fault.fault.place, share, count, 0, count, 0, rank=COMBINED, taps=taps)
    lines = [finding for finding in fault.findings if finding.name == REFERENCE]
    return replace(fault, explanations=[loads], findings=lines, stopped=False, cut=False, tried=taps, untried=0)
