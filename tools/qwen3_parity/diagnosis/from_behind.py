"""A wrong place that no edit of its own ops explains, looked at by fewer taps: from a module or a layer behind it.

An edit may read what stands outside a place's ops: values that are turned as keys are need the angles, which no value
reads. By fewer taps both are computed by one slice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache

from qwen3_parity.diagnosis.edits.search import Fitting, Searched
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.wrong_places import by_place, passing_values, pattern
from qwen3_parity.slices.check import Judged, judged_by_graph
from qwen3_parity.slices.network import Network
from qwen3_reference.graph.words import RESULTS

View = Callable[[], Judged | None]
"""A candidate judged by fewer taps, once it is asked for; None where it has no others."""
Look = Callable[[Fault, Network, Collection[int], int], Searched]
"""Searches at a place of a view's network, beside the values that pass in it, after so much counted work."""
_INSIDE = re.compile(r"cache\..*|.*\.(query|key|value|probs|context)")


def views(judged: Judged) -> Sequence[View]:
    """The candidate by its modules' outputs, and by its layers' and its own results."""

    def view(stays: Callable[[str], bool]) -> View:
        @cache
        def fewer() -> Judged | None:
            if (network := judged.network) is None:
                return None
            tensors = [item for item in network.candidate if stays(item.info.name)]
            if len(tensors) == len([*network.candidate]):
                return None
            candidate = replace(network.candidate, tensors=tensors)
            return judged_by_graph(network.golden, candidate, judged.weights, partial=True)

        return fewer

    return view(_is_of_a_module), view(_is_of_a_layer)


def _is_of_a_module(name: str) -> bool:
    return _INSIDE.fullmatch(name) is None


def _is_of_a_layer(name: str) -> bool:
    return name.startswith("input.") or name in RESULTS or pattern(name).endswith("{layer}")


def from_behind(fault: Fault, before: Searched, every: Sequence[View], search: Look) -> Searched:
    """What explains the first wrong place behind a fault, by the first view that has it; else what was `before`."""
    work = before.work
    for view in every:
        judged = view()
        place = None if judged is None else next(_behind(fault, judged), None)
        if judged is None or judged.network is None or place is None:
            continue
        searched = search(place, judged.network, passing_values(judged.alone, judged.network), work)
        work += searched.work
        best = next(iter(searched.fitting), None)
        if best is not None and best.said.whole == best.said.of and not best.said.contradicted + best.beside:
            keys = tuple((verdict.name, verdict.step) for verdict in fault.wrong)
            fitting = [_at(each, fault.place, keys) for each in searched.fitting]
            return replace(searched, fitting=fitting, tried=keys, work=work)
    return replace(before, work=work)


def _behind(fault: Fault, judged: Judged) -> Iterator[Fault]:
    """The wrong places of a view that compute what a fault's taps hold."""
    network = judged.network
    if network is not None:
        taps = network.graph.taps
        values = {taps[verdict.name, verdict.step] for verdict in fault.wrong}
        for place, _ in by_place(judged.alone):
            keys = ((verdict.name, verdict.step) for verdict in place.wrong)
            if any(not values.isdisjoint(network.slices.order(taps[key])) for key in keys):
                yield place


def _at(fitting: Fitting, place: str, keys: Sequence[tuple[str, int]]) -> Fitting:
    """What explains a place behind, said of this one."""
    return fitting._replace(said=replace(fitting.said, place=place, taps=tuple(keys)))
