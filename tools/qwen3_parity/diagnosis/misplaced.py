"""Taps of a graph that something that reads them does not go on with: it is right without them.

Where all is that reads one, it was recorded at another place; where some is, it is a copy, for the rest to read.
A cache is recorded at the end of a step: what some rows of the step read earlier may be otherwise since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, Tensor
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.findings import Key
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import WRONG_ALONE, Verdict, Verdicts
from qwen3_parity.slices.check import Judged
from qwen3_parity.slices.judge import ROWS, Alone, judge, measure, share_of
from qwen3_parity.slices.network import Network, network
from qwen3_reference.graph.scope import counted
from qwen3_spec.slices import chooser

_CACHES = "cache."
"""How the taps of caches begin."""


class Misplaced(NamedTuple):
    """A fault whose tap some taps do not go on with: `readers` are the verdicts on them, right, without it.

    Where `everybody` does so, it is none: its tap was recorded at another place. `earlier`: some rows of each do so.
    """

    fault: Fault
    readers: Mapping[Key, OpVerdict]
    everybody: bool = True
    earlier: bool = False

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
        without = {key: x.verdict for key, x in again.items() if x.verdict.passed and not x.verdict.reason}
        if without:
            elsewhere.append(Misplaced(fault, without, len(without) == len(readers)))
    cleared = {key for each in elsewhere for key in each.cleared}
    return [*elsewhere, *_read_earlier(faults, judged, net, weights, cleared)]


def _read_earlier(
    faults: Sequence[Fault], judged: Judged, net: Network, weights: Mapping[str, Array], cleared: set[Key]
) -> list[Misplaced]:
    """Wrong caches, with what is right in each of its rows by them, or by what the reference has in their place."""
    caches = [fault for fault in faults if fault.place.startswith(_CACHES)]
    wrong = {(verdict.name, verdict.step) for fault in caches for verdict in fault.wrong}
    values, by_key = {net.graph.taps[key] for key in wrong}, {(x.verdict.name, x.verdict.step): x for x in judged.alone}
    readers = [
        key
        for key, part in by_key.items()
        if not part.verdict.passed
        and not part.verdict.reason
        and key not in cleared | wrong
        and not values.isdisjoint(net.slices.reads(net.graph.taps[key]))
    ]
    if not readers:
        return []
    again = _judged(
        readers, [item for item in net.candidate if net.graph.taps.get(item.key) not in values], net, weights
    )
    either = {key: _by_rows(by_key[key], again[key], net) for key in readers}
    passing = {key: verdict for key, verdict in either.items() if verdict.passed}
    return [Misplaced(fault, passing, everybody=False, earlier=True) for fault in caches if passing]


def _by_rows(here: Alone, without: Alone, net: Network) -> OpVerdict:
    """The verdict on a tap each of whose rows is judged by the better of two."""
    expected = net.golden[here.verdict.name, here.verdict.step]
    axes, counts = tuple(expected.info.axes), counted(expected, net.golden)
    if without.verdict.reason or not here.cells.shape == without.cells.shape == counts.shape:
        return here.verdict
    across = tuple(place for place, axis in enumerate(axes) if axis not in ROWS)
    worst = (cells.max(across, keepdims=True) for cells in (here.cells, without.cells))
    errors = measure(np.where(np.less_equal(*worst), here.cells, without.cells), counts, axes)
    return replace(here.verdict, errors=errors, share=share_of(errors, net.narrow))


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
    every = _judged(readers, [item for item in net.candidate if item.key not in mine], net, weights)
    return all(each.verdict.passed and not each.verdict.reason for each in every.values())


def _without(
    mine: Mapping[Key, int], readers: Sequence[Key], net: Network, weights: Mapping[str, Array]
) -> dict[Key, Alone]:
    """The taps by what stands before a fault's, which count as not recorded: by any of their names."""
    values = {*mine.values()}
    tensors = [item for item in net.candidate if net.graph.taps.get(item.key) not in values]
    return _judged(readers, tensors, net, weights)


def _judged(
    readers: Sequence[Key], tensors: Sequence[Tensor], net: Network, weights: Mapping[str, Array]
) -> dict[Key, Alone]:
    """The taps as they are judged by these tensors alone."""
    golden = net.golden
    fewer = network(golden, replace(net.candidate, tensors=tensors), weights)
    return {key: judge(net.candidate[key], golden[key], counted(golden[key], golden), fewer) for key in readers}
