"""Places of a graph that are right by the weights that the candidate loaded, which are not the checkpoint's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, pattern_of
from qwen3_parity.diagnosis.as_held import fix_of, held_whole, in_words
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.findings import Key
from qwen3_parity.diagnosis.findings.structure.weights import UNKNOWN
from qwen3_parity.diagnosis.parameters import FOREIGN, parameter_faults
from qwen3_parity.judge.match import other_bytes
from qwen3_parity.mistakes.ranks import COMBINED
from qwen3_parity.slices.check import Judged, judged_by_graph
from qwen3_parity.slices.network import Network

_MANY = 4
"""Kinds of weights that are not one mistake of whoever reads them: another revision, a merge, few bits."""
ALL = "the weights as loaded, which are not the checkpoint's, give these numbers; nothing else is otherwise"


class AsHeld(NamedTuple):
    """The weights that a recording has whole, and the taps that are right by them, with their shares of the budget.

    `is_all`: every tap that is judged is.
    """

    held: Mapping[str, Array]
    shares: Mapping[Key, float]
    is_all: bool


def all_as_held(judged: Judged, weights: Mapping[str, Array]) -> AsHeld | None:
    """Where many weights were loaded otherwise, as of another revision: whether nothing else is; None where few were.

    What is another tensor of the checkpoint is one mistake, which a search names.
    """
    network = judged.network
    if network is None or len({*map(pattern_of, other_bytes(network.candidate, network.golden))}) < _MANY:
        return None
    every = _judged(judged, network, weights)
    if every is None or not every.is_all:
        return every
    faults = parameter_faults(network.candidate, network.golden, weights)
    others = all(fault.name in every.held and fault.says.startswith(FOREIGN) for fault in faults)
    return every._replace(is_all=others)


def right_as_held(
    faults: Sequence[Explained], judged: Judged, weights: Mapping[str, Array], loaded: AsHeld | None = None
) -> list[Explained]:
    """The faults, those that no mistake explains wholly with the loaded weights, where these make their taps right."""
    network = judged.network
    puzzling = [fault for fault in faults if fault.left or not fault.is_known]
    if network is None or not puzzling:
        return [*faults]
    every = loaded or _judged(judged, network, weights)
    if every is None:
        return [*faults]
    is_all = loaded is not None and loaded.is_all
    return [_as_held(fault, network, every, is_all=is_all) if fault in puzzling else fault for fault in faults]


def _judged(judged: Judged, network: Network, weights: Mapping[str, Array]) -> AsHeld | None:
    """All ops once more, by the numbers that the candidate's recording has of its weights; None where it has none."""
    held = held_whole(network.graph.parameters, network)
    if not held:
        return None
    loaded = {name: np.asarray(rows, np.float32) for name, rows in held.items()}
    again = judged_by_graph(network.golden, network.candidate, {**weights, **loaded}, partial=True).alone
    verdicts = [part.verdict for part in again if not part.verdict.reason]
    shares = {(verdict.name, verdict.step): verdict.share for verdict in verdicts if verdict.passed}
    return AsHeld(held, shares, len(shares) == len(verdicts))


def _as_held(fault: Explained, network: Network, every: AsHeld, *, is_all: bool) -> Explained:
    held, shares = every.held, every.shares
    taps = tuple((verdict.name, verdict.step) for verdict in fault.fault.wrong)
    read = network.parameters_of(network.graph.taps[tap] for tap in taps)
    loaded = {name: held[name] for name in read if name in held}
    if not loaded or not shares.keys() >= {*taps}:
        return fault
    tensors = {name: network.parameter(name) for name in network.graph.parameters}
    name, says = in_words(loaded, tensors)
    if name == UNKNOWN and not is_all:
        return fault
    share, count = max(shares[tap] for tap in taps), len(taps)
    loads = Explanation(
        name, says, fix_of(loaded, tensors), fault.fault.place, share, count, 0, count, 0, rank=COMBINED, taps=taps
    )
    return replace(fault, explanations=[loads], findings=[], stopped=False, cut=False, tried=taps, untried=0)
