"""The harness under test: a golden is captured, a run recorded by it and judged. All of it is called here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import fspath
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from warnings import catch_warnings

import qwen3_parity
from detection.families.subject import Subject
from qwen3_golden import Array, Recording, read
from qwen3_parity.diagnosis import Diagnosis, diagnose
from qwen3_parity.slices.network import network
from qwen3_parity.slices.stored import graph_of
from qwen3_reference.graph.capture import capture
from qwen3_spec.slices import Slices

_INSIDE = (".query", ".key", ".value", ".probs", ".context")


@dataclass(frozen=True)
class Judge:
    """A family's golden with the weights that it was captured with, by the graph's names."""

    golden: Recording
    weights: Mapping[str, Array]
    folder: Path
    seconds: float

    @classmethod
    def of(cls, subject: Subject, folder: Path) -> Judge:
        """Capture a family's golden in a folder; raises `ParityError` for a model that cannot be exported."""
        path, start = folder / "golden.pb", perf_counter()
        capture(subject.model, subject.inputs, path, steps=subject.steps)
        seconds = perf_counter() - start
        weights = {
            name: value.detach().float().numpy().copy()
            for name, value in subject.model.named_parameters(remove_duplicate=False)
        }
        return cls(read(path), weights, folder, seconds)

    def recorded(self, model: Any, run: Callable[[], object], *, whole: bool = False) -> Recording:
        """What a run of a model gives, by modules alone; with attention's inner values and caches where `whole`."""
        place = self.folder / "recorded.pb"
        # What an implementation does not show is left out in words.
        with catch_warnings(action="ignore"), qwen3_parity.record(model, self.golden.source, path=place) as recorder:
            run()
        every = read(fspath(recorder))
        return every if whole else replace(every, tensors=[item for item in every if not self._is_inside(item.key)])

    def _is_inside(self, key: tuple[str, int]) -> bool:
        return key[0].startswith("cache.") or key in self._inside

    @cached_property
    def _inside(self) -> Collection[tuple[str, int]]:
        """Taps of attention's inner values, also where a module gives one as its second place."""
        taps = graph_of(self.golden.graph, self.golden.source).taps
        values = {value for (name, _), value in taps.items() if name.endswith(_INSIDE)}
        return {key for key, value in taps.items() if value in values}

    def said(self, candidate: Recording, blame: Sequence[str] = ()) -> Said:
        """What the judge says of a recording, and whether it blames those that it must."""
        start = perf_counter()
        diagnosis = diagnose(self.golden, candidate, self.weights)
        seconds = perf_counter() - start
        names = [(tap.name, tap.step) for tap in wrong_taps(diagnosis)]
        slices = network(self.golden, candidate, self.weights).slices
        inside = [key for key in names if modules_of(slices, self.golden, key) & {*blame}]
        innocent = [f"{name} (step {step})" for name, step in names if (name, step) not in inside]
        share = max((tap.share for tap in diagnosis.verdicts.taps), default=0.0)
        problem = "; ".join(f"{broken.where}: {broken.rule}" for broken in diagnosis.verdicts.problems[:1])
        return Said(problem, share, tuple(name for name, _ in inside), tuple(innocent), seconds)


class Said(NamedTuple):
    """A judgement: the first problem ("": none), the largest share of a headroom, who is blamed."""

    problem: str
    share: float
    inside: tuple[str, ...]
    innocent: tuple[str, ...]
    seconds: float


def wrong_taps(diagnosis: Diagnosis) -> list[Any]:
    """The verdicts of every tap of a fault."""
    return [verdict for finding in diagnosis.faults for verdict in finding.fault.wrong]


def modules_of(slices: Slices, golden: Recording, key: tuple[str, int]) -> set[str]:
    """The modules whose ops make a tap of the nearest recorded values."""
    graph = slices.graph
    nodes = (graph.node(value) for value in slices.order(graph.taps[key]))
    return {node.module for node in nodes if node is not None}
