"""Verdicts on single taps, put together: one fault for each place that is wrong, and taps that are merely misplaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from threadpoolctl import threadpool_limits

from qwen3_golden import pattern_of
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.replay import settled
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.blame.values import Values
from qwen3_parity.judge.op_verdict import OpVerdict

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Fault:
    """A place of the network that is wrong on its own inputs, in some layers and steps.

    `place` is its pattern; `others` are places without a tap of their own that are judged with it: the mistake is in
    one of the group. `wrong` are the failing taps in execution order, `passing` those of the same place.
    """

    place: str
    others: tuple[str, ...] = ()
    wrong: tuple[OpVerdict, ...] = ()
    passing: tuple[OpVerdict, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Every place of the group, the one with the tap first."""
        return self.place, *self.others

    @property
    def worst(self) -> OpVerdict:
        """The tap that uses most of its headroom."""
        return max(self.wrong, key=lambda verdict: verdict.share)


@dataclass
class Blame:
    """Every tap of a candidate judged `alone` in execution order, `faults` in the order of their first tap.

    `misplaced` are places whose taps were recorded somewhere else: without them, everything that reads them is right.
    A choice (ids, positions, indices) is never that: it stays a fault, and what is right without it is none.
    """

    alone: Sequence[OpVerdict]
    faults: Sequence[Fault]
    misplaced: Sequence[Fault]
    judge: TapJudge = field(repr=False)

    @property
    def values(self) -> Values:
        """The candidate's run."""
        return self.judge.values

    def evidence(self, verdict: OpVerdict) -> Evidence | str:
        """What the verdict on a tap was reached by, or why there is none."""
        return self.judge.another().evidence(self.values.recording[verdict.name, verdict.step])


def blame(judge: TapJudge, progress: Progress = lambda _: None) -> Blame:
    """Judge every tap of a candidate on the candidate's own inputs and put the wrong ones together by place."""
    alone = []
    for verdict, names in _side_by_side(judge):
        progress(verdict.name)
        alone.append((verdict, names))
    inputs = {(verdict.name, verdict.step): names for verdict, names in alone}
    verdicts = settled([verdict for verdict, _ in alone], inputs, judge)
    reads: dict[tuple[str, int], list[OpVerdict]] = {}
    for verdict in verdicts:
        for name in inputs[verdict.name, verdict.step]:
            reads.setdefault((name, verdict.step), []).append(verdict)
    faults = by_place(verdicts)
    misplaced = _misplaced(faults, reads, judge)
    chosen = [
        fault
        for fault, _ in misplaced
        if any(judge.values.is_choice(verdict.name, verdict.step) for verdict in fault.wrong)
    ]
    explained = {
        verdict for fault, readers in misplaced for verdict in (*(() if fault in chosen else fault.wrong), *readers)
    }
    rest = by_place([verdict for verdict in verdicts if verdict not in explained])
    return Blame(verdicts, rest, [fault for fault, _ in misplaced if fault not in chosen], judge)


def blame_outputs(judge: TapJudge, outputs: Collection[str]) -> Blame:
    """As `blame` for an op's case: what is not among its `outputs` is given."""
    taps = [item for item in judge.values.recording if item.info.name in outputs]
    verdicts = [judge.another().alone(item)[0] for item in taps]
    return Blame(verdicts, by_place(verdicts), [], judge)


def _side_by_side(judge: TapJudge) -> Iterator[tuple[OpVerdict, tuple[str, ...]]]:
    """Each tap's verdict in execution order, with the taps that it was computed from.

    NumPy lets go of the interpreter, and small products are faster on one thread each.
    """
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        # What is computed on the way belongs to one thread.
        yield from pool.map(lambda item: judge.another().alone(item), judge.taps())


def by_place(verdicts: Iterable[OpVerdict]) -> list[Fault]:
    """One fault for each place with a failing tap, in the order of the first."""
    groups: dict[str, list[OpVerdict]] = {}
    for verdict in verdicts:
        if not verdict.reason:
            groups.setdefault(pattern_of(verdict.name), []).append(verdict)
    faults = []
    for place, judged in groups.items():
        wrong = tuple(verdict for verdict in judged if not verdict.passed)
        if wrong:
            others = tuple(dict.fromkeys(pattern_of(name) for name in wrong[0].others))
            passing = tuple(verdict for verdict in judged if verdict.passed)
            faults.append(Fault(place, tuple(name for name in others if name != place), wrong, passing))
    return sorted(faults, key=lambda fault: _order(fault.wrong[0], groups))


def _order(verdict: OpVerdict, groups: Mapping[str, list[OpVerdict]]) -> int:
    return list(groups).index(pattern_of(verdict.name))


def _misplaced(
    faults: Sequence[Fault], reads: Mapping[tuple[str, int], Sequence[OpVerdict]], judge: TapJudge
) -> list[tuple[Fault, list[OpVerdict]]]:
    """Faults whose tap is wrong, as is everything that reads it, and everything that reads it is right without it."""
    misplaced = []
    for fault in faults:
        readers = [reader for verdict in fault.wrong for reader in reads.get((verdict.name, verdict.step), [])]
        if not readers or any(reader.passed for reader in readers):
            continue
        without = judge.another(dropped=frozenset([fault.place]))
        again = [without.alone(judge.values.recording[reader.name, reader.step])[0] for reader in readers]
        if all(verdict.passed and not verdict.reason for verdict in again):
            misplaced.append((fault, readers))
    return misplaced
