"""Taps of a graph that something that reads them does not go on with: it is right without them.

Where all is that reads one, it was recorded at another place; where some is, it is a copy, for the rest to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from qwen3_golden import Array, Tensor
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.findings import Key
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import WRONG_ALONE, Verdict, Verdicts
from qwen3_parity.slices.check import Judged
from qwen3_parity.slices.judge import judge
from qwen3_parity.slices.network import Network, network
from qwen3_reference.graph.scope import counted
from qwen3_spec.slices import chooser


class Misplaced(NamedTuple):
    """A fault whose tap some taps do not go on with: `readers` are the verdicts on them, right, without it.

    Where `everybody` does so, it is none: its tap was recorded at another place.
    """

    fault: Fault
    readers: Mapping[Key, OpVerdict]
    everybody: bool = True

    @property
    def cleared(self) -> set[Key]:
        """The taps that nothing is wrong with but where the fault's was recorded."""
        return {*self.readers, *((verdict.name, verdict.step) for verdict in self.fault.wrong if self.everybody)}


def misplaced(faults: Sequence[Fault], judged: Judged, weights: Mapping[str, Array]) -> list[Misplaced]:
    """The faults whose tap is wrong, as is what reads it with the tap, and right without it: all of that, or some.

    A choice is never one: who reads it has it.
    """
    net = judged.network
    if net is None or not faults:
        return []
    by_key = {(part.verdict.name, part.verdict.step): part.verdict for part in judged.alone}
    elsewhere = list[Misplaced]()
    for fault in faults:
        mine = {(verdict.name, verdict.step): net.graph.taps[verdict.name, verdict.step] for verdict in fault.wrong}
        readers = _readers(mine, by_key, net)
        chooses = any(chooser(net.graph, value) is not None for value in mine.values())
        wrong = [key for key in readers if not by_key[key].passed]
        if chooses or not readers:
            continue
        if not wrong:
            if _is_right_by_its_copy(mine, readers, by_key, net, weights):
                elsewhere.append(Misplaced(fault, {}))
            continue
        again = _without(mine, wrong, net, weights)
        without = {key: verdict for key, verdict in again.items() if verdict.passed and not verdict.reason}
        if without:
            elsewhere.append(Misplaced(fault, without, len(without) == len(readers)))
    return elsewhere


def with_readers_right(verdicts: Verdicts, elsewhere: Sequence[Misplaced]) -> Verdicts:
    """The verdicts on a run in which who reads a misplaced tap is judged without it."""
    again = {key: verdict for each in elsewhere for key, verdict in each.readers.items()}
    taps = list[Verdict]()
    for tap in verdicts.taps:
        if (verdict := again.get((tap.name, tap.step))) is not None:
            alone = tap.problem is not None and tap.problem.rule == WRONG_ALONE
            tap = replace(tap, alone=verdict, problem=None if alone else tap.problem)
        taps.append(tap)
    return replace(verdicts, taps=taps)


def _readers(mine: Mapping[Key, int], by_key: Mapping[Key, OpVerdict], net: Network) -> list[Key]:
    """The judged taps that are computed from a fault's."""
    values = {*mine.values()}
    judged = (key for key, verdict in by_key.items() if not verdict.reason and net.graph.taps[key] not in values)
    return [key for key in judged if values & {*net.slices.reads(net.graph.taps[key])}]


def _is_right_by_its_copy(
    mine: Mapping[Key, int],
    readers: Sequence[Key],
    by_key: Mapping[Key, OpVerdict],
    net: Network,
    weights: Mapping[str, Array],
) -> bool:
    """Whether all goes on with what stands under another name of a fault's values, where it is right."""
    copies = [key for key in by_key if net.graph.taps[key] in {*mine.values()} and key not in mine]
    if not copies or not all(by_key[key].passed for key in copies):
        return False
    verdicts = _judged(readers, [item for item in net.candidate if item.key not in mine], net, weights)
    return all(verdict.passed and not verdict.reason for verdict in verdicts.values())


def _without(
    mine: Mapping[Key, int], readers: Sequence[Key], net: Network, weights: Mapping[str, Array]
) -> dict[Key, OpVerdict]:
    """The verdicts on taps by what stands before a fault's, which count as not recorded: by any of their names."""
    values = {*mine.values()}
    tensors = [item for item in net.candidate if net.graph.taps.get(item.key) not in values]
    return _judged(readers, tensors, net, weights)


def _judged(
    readers: Sequence[Key], tensors: Sequence[Tensor], net: Network, weights: Mapping[str, Array]
) -> dict[Key, OpVerdict]:
    """The verdicts on taps by these tensors alone."""
    golden = net.golden
    fewer = network(golden, replace(net.candidate, tensors=tensors), weights)
    return {key: judge(net.candidate[key], golden[key], counted(golden[key], golden), fewer).verdict for key in readers}
