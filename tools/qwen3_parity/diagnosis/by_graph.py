"""The diagnosis of a candidate by a golden's graph: which slices are wrong, and the reference's lines of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from qwen3_golden import Array, Recording
from qwen3_golden.contract import contract_of
from qwen3_golden.origins import origin_of
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.at_padding import at_padding
from qwen3_parity.diagnosis.by_layer import Part, by_layer
from qwen3_parity.diagnosis.edits.edit import Edit, numbers_of, opened
from qwen3_parity.diagnosis.edits.explain import explain
from qwen3_parity.diagnosis.edits.past_windows import GONE, with_past
from qwen3_parity.diagnosis.edits.search import ENOUGH, Searched
from qwen3_parity.diagnosis.edits.words import model_line
from qwen3_parity.diagnosis.elsewhere import Elsewhere
from qwen3_parity.diagnosis.explained import REFERENCE, Explained, certain, outranked
from qwen3_parity.diagnosis.explanation import Explanation, where_made
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.findings import Finding, Key, findings
from qwen3_parity.diagnosis.findings.of_graph import wrong_tap
from qwen3_parity.diagnosis.from_behind import View, from_behind, views
from qwen3_parity.diagnosis.joined import idle_beside, joined
from qwen3_parity.diagnosis.misplaced import Misplaced, misplaced, with_readers_right
from qwen3_parity.diagnosis.other_names import Judgement, under_right_names
from qwen3_parity.diagnosis.other_order import in_right_order
from qwen3_parity.diagnosis.parameters import ParameterFault, parameter_faults
from qwen3_parity.diagnosis.positions import Cells
from qwen3_parity.diagnosis.precision import NOT_FINITE, beside_a_rounding, held_by_all, ordered
from qwen3_parity.diagnosis.right_alone import meaning_of_graph, nobody_judges
from qwen3_parity.diagnosis.right_as_held import ALL, AsHeld, all_as_held, right_as_held
from qwen3_parity.diagnosis.search import Search
from qwen3_parity.diagnosis.whereabouts import whereabouts
from qwen3_parity.diagnosis.wrong_places import by_place, passing_values, pattern
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.judge.match import several
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.slices.axes import axes_of
from qwen3_parity.slices.check import Judged, judged_by_graph
from qwen3_parity.slices.judge import Alone
from qwen3_parity.slices.network import Network
from qwen3_parity.slices.source import place_of, text_of
from qwen3_reference.graph.scope import counted
from qwen3_spec.graph import Line

_HIDDEN = 4
"""Taps to record next that are named."""
_LINES = 6
_WINDOW = "window"
"""What the key of a window's length has in it, which an edit says of the number."""
_LEAST = 8
"""The part of all work that a fault has at least, however many there are."""
_ALIKE = 8
"""Further wrong taps of a place whose numbers are looked at together with the worst one's."""


def diagnose_by_graph(
    golden: Recording,
    candidate: Recording,
    weights: Mapping[str, Array],
    search: Search,
    *,
    partial: bool = False,
    effort: float = 1.0,
) -> Diagnosis:
    """Judge a candidate by its golden's graph, and say of each wrong place the reference's ops and lines.

    `weights` are the graph's parameters by name. The `search` says when it is late; `effort`: how much is searched, in
    times of what is usual. Raises `ParityError` when the two do not belong together.
    """
    judged = judged_by_graph(golden, candidate, weights, partial=partial)
    judged, under_others = search.or_else(
        lambda: _by_right_names(judged, golden, candidate, weights), (judged, list[Elsewhere]()), "tap names"
    )
    weights = judged.weights
    verdicts = replace(judged.verdicts, contract=contract_of(golden))
    with threadpool_limits(1, user_api="blas"):  # the products are small
        places = [fault for fault, _ in by_place(judged.alone)]
        held = search.or_else(lambda: all_as_held(judged, weights) if places else None, None, "the loaded weights")
        is_all = held is not None and held.is_all
        elsewhere = list[Misplaced]()
        if not is_all:
            elsewhere = search.or_else(lambda: misplaced(places, judged, weights), elsewhere, "misplaced taps")
        faults = _faults(judged, search, None if is_all else int(effort * ENOUGH), elsewhere)
        faults = search.or_else(lambda: right_as_held(faults, judged, weights, held), faults, "the loaded weights")
    verdicts = with_readers_right(verdicts, elsewhere)
    again = {key: verdict for each in elsewhere for key, verdict in each.readers.items()}
    alone = [again.get((part.verdict.name, part.verdict.step), part.verdict) for part in judged.alone]
    faults = [_with_copy(fault, elsewhere) for fault in faults]
    not_there = [*under_others, *(Elsewhere(each.fault.place) for each in elsewhere if each.everybody)]
    nobody = not (faults or under_others or elsewhere)
    faults = ordered(faults, verdicts)
    means = meaning_of_graph(verdicts, alone, golden.run.arithmetic) if nobody else _meaning(faults, verdicts, held)
    padding = search.or_else(lambda: at_padding(judged), None, "padding") if nobody and means else None
    if padding is not None:
        there, sentence = padding
        means = [sentence]
        with threadpool_limits(1, user_api="blas"):
            faults = _faults(there, search, int(effort * ENOUGH))
    parameters = _parameters(judged, faults, weights) if verdicts.structural else []
    return Diagnosis(verdicts, alone, faults, not_there, parameters, failures=search.failures, meaning=means)


def _meaning(faults: Sequence[Explained], verdicts: Verdicts, held: AsHeld | None) -> list[str]:
    """What is said of a run with faults: why it is not finite, where none says it, or that the weights explain all."""
    if verdicts.not_finite and not any(
        each.name.endswith(NOT_FINITE) for fault in faults[:1] for each in fault.findings
    ):
        return [nobody_judges(verdicts)]
    return [ALL] if held is not None and held.is_all else []


def _by_right_names(
    judged: Judged, golden: Recording, candidate: Recording, weights: Mapping[str, Array]
) -> tuple[Judged, list[Elsewhere]]:
    """What is judged with each tap under the name whose numbers it holds, and the places that were moved."""
    again = judged

    def judge(renamed: Recording) -> Judgement:
        nonlocal again
        again = judged_by_graph(golden, renamed, weights, partial=judged.verdicts.partial)
        return _judgement(again)

    if judged.network is None:
        return judged, []
    ordered, before = judged.network.candidate, _judgement(judged)
    for look in (under_right_names, in_right_order):
        if (moved := look(golden, ordered, lambda item: counted(item, golden), before, judge)) is not None:
            return replace(again, verdicts=moved[0]), moved[1]
    return judged, []


def _judgement(judged: Judged) -> Judgement:
    network, alone = judged.network, [part.verdict for part in judged.alone]

    def reads(names: set[str]) -> set[Key]:
        if network is None:
            return set()
        values = {value for (name, _), value in network.graph.taps.items() if name in names}
        keys = [(verdict.name, verdict.step) for verdict in alone]
        return {key for key in keys if values & {*network.slices.reads(network.graph.taps[key])}}

    return Judgement(judged.verdicts, alone, reads)


def _parameters(judged: Judged, faults: Sequence[Explained], weights: Mapping[str, Array]) -> list[ParameterFault]:
    """The parameters with other bytes: of wrong places those that such a one reads and no mistake explains.

    What right places read is right in the form that it is loaded in.
    """
    network = judged.network
    every = [] if network is None else parameter_faults(network.candidate, network.golden, weights)
    if network is None or not every or not faults:
        return every
    puzzling = (fault for fault in faults if fault.left or not fault.is_known)
    read = network.parameters_of(network.graph.taps[x.name, x.step] for fault in puzzling for x in fault.fault.wrong)
    return [parameter for parameter in every if parameter.name in read]


class _Place(NamedTuple):
    """A wrong place: its fault, its wrong taps, the edits that explain it, in a network, and what its taps copy."""

    fault: Fault
    wrong: Sequence[Alone]
    searched: Searched
    network: Network
    first: Mapping[Key, Key]
    forms: str = ""
    is_rest: bool = False


def _faults(judged: Judged, search: Search, until: int | None, elsewhere: Sequence[Misplaced] = ()) -> list[Explained]:
    """The faults with what explains them; nothing is looked for where `until` is None."""
    network = judged.network
    if network is None:
        return []
    passed, behind = passing_values(judged.alone, network), views(judged)
    places, known, work, before = list[_Place](), dict[str, Edit](), 0, dict[int, Key]()
    for every, taps in by_place(judged.alone, {key for each in elsewhere for key in each.cleared}):
        place, (first, fault, wrong, net) = every.place, joined(every, taps, before, network)
        before |= {network.graph.taps[key]: key for key in ((verdict.name, verdict.step) for verdict in fault.wrong)}
        if not wrong:
            _name_too(place, first, places)
            continue
        search.progress(f"what is otherwise at {place}")
        searched = Searched()
        if until is not None:
            most = max(until - work, until // _LEAST)
            views_of = behind if net is network else ()
            searched = _here_or_behind(fault, net, list(known.values()), search, passed, views_of, most)
        work += searched.work
        past = [longer for x in searched.fitting if (longer := with_past(x.edit, net)) is not None]
        if past:
            searched = _in_all_steps(fault, net, searched, past, search, passed)
            known |= {edit.says: edit for edit in past}
        known |= {edit.says: edit for x in searched.fitting for edit in (*x.edit.parts, x.edit)}
        places.append(_Place(fault, wrong, searched, net, first))
    return [
        replace(_explained(part, by_numbers=until is not None), cut=part.searched.stopped and search.cut)
        for place in _agreed(places, search, passed)
        for part in _by_layer(place, search, passed, until)
    ]


def _by_layer(place: _Place, search: Search, passed: Collection[int], until: int | None) -> list[_Place]:
    """A place, or what is otherwise in it and what is in few bits; as it is where nothing is looked for."""
    if until is None:
        return [place]
    part, most = Part(place.fault, place.wrong, place.searched), until // _LEAST

    def again(fault: Fault) -> Searched:
        return _searched(fault, place.network, (), search, passed, most)

    parts = search.or_else(lambda: by_layer(part, place.network, again), [part], f"the layers of {place.fault.place}")
    return [place._replace(**each._asdict()) for each in parts]


def _name_too(place: str, first: Mapping[Key, Key], places: list[_Place]) -> None:
    """Another name of the same values stands with the place of the `first`."""
    of = {pattern(name) for name, _ in first.values()}
    number = next(number for number, each in enumerate(places) if each.fault.place in of)
    fault = places[number].fault
    places[number] = places[number]._replace(fault=replace(fault, others=(*fault.others, place)))


def _here_or_behind(
    fault: Fault,
    network: Network,
    known: Sequence[Edit],
    search: Search,
    passed: Collection[int],
    behind: Sequence[View],
    most: int,
) -> Searched:
    """What explains a place by its own ops, or else by fewer taps, in counted work of `most` together."""

    def by_fewer(place: Fault, view: Network, passing: Collection[int], work: int) -> Searched:
        return _searched(place, view, known, search, passing, max(most - work, most // _LEAST))

    searched = _searched(fault, network, known, search, passed, most)
    return searched if searched.fitting else from_behind(fault, searched, behind, by_fewer)


def _in_all_steps(
    fault: Fault, network: Network, searched: Searched, past: Sequence[Edit], search: Search, passed: Collection[int]
) -> Searched:
    """What was found of a window, in decode steps, too, where that gives more wrong taps."""
    longer = _searched(fault, network, past, search, passed, new=False)
    better = bool(longer.fitting) and longer.fitting[0].said.reproduced > searched.fitting[0].said.reproduced
    return replace(searched, fitting=longer.fitting, stopped=False) if better else searched


def _searched(
    fault: Fault,
    network: Network,
    known: Sequence[Edit],
    search: Search,
    passed: Collection[int],
    until: int = ENOUGH,
    *,
    new: bool = True,
) -> Searched:
    def explained() -> Searched:
        return explain(fault, network, known, until, search.over, new=new, passed=passed)

    return search.or_else(explained, Searched(), f"the edits of {fault.place}")


def _agreed(places: Sequence[_Place], search: Search, passed: Collection[int]) -> list[_Place]:
    """What explains one place alone gives way to an edit of another place that explains both: one mistake, not two."""
    agreed = list(places)
    for number, place in enumerate(agreed):
        mine = place.searched.fitting[:1]
        others = [
            best for each in agreed if each is not place for best in each.searched.fitting[:1] if not best.edit.parts
        ]
        if not mine or mine[0].edit.says in (each.edit.says for each in others):
            continue
        counts = Counter(each.edit.says for each in others)
        edits = {each.edit.says: each.edit for each in others
                 if counts[each.edit.says] > 1 or each.said.rank <= mine[0].said.rank}  # fmt: skip
        shared = _searched(place.fault, place.network, [*edits.values()], search, passed, new=False)
        if shared.fitting and shared.fitting[0].order[:3] <= mine[0].order[:3]:
            agreed[number] = place._replace(searched=replace(place.searched, fitting=shared.fitting))
    return agreed


def _explained(place: _Place, *, by_numbers: bool = True) -> Explained:
    fault, wrong, searched, network, first, forms, is_rest = place
    worst = max(wrong, key=lambda part: part.verdict.share)
    key = worst.verdict.name, worst.verdict.step
    value = network.graph.taps[key]
    where = whereabouts(fault, [_cells(part, network) for part in (worst, *wrong)], network.golden)
    tap = wrong_tap(worst, network) if by_numbers else None
    others = [part for part in wrong if part is not worst][:_ALIKE]
    alike = [further for part in others if (further := wrong_tap(part, network)) is not None]
    numbers = [] if tap is None else held_by_all(findings(tap, alike), alike)
    numbers = beside_a_rounding(numbers) if is_rest else numbers
    numbers[:1] = [replace(finding, says=forms or finding.says) for finding in numbers[:1]]
    every = where_made([fitting.said for fitting in searched.fitting], [(tap.name, tap.step) for tap in fault.wrong])
    explanations, no_names = certain(every, narrow=network.narrow)
    if not explanations and (windows := _of_the_first_step(every, fault)):
        explanations, no_names = windows, []
    explanations, no_names = outranked(explanations, no_names, numbers)
    idle = idle_beside(key, first, network)
    known = bool(explanations) and explanations[0].certain
    by_weight = sorted([*([] if known else numbers), *no_names], key=lambda finding: -finding.weight)
    says = sorted([*idle, *by_weight], key=lambda finding: not finding.name.endswith(NOT_FINITE))
    said = [*says, *([] if explanations or idle else _lines(network, value, wrong))]
    return Explained(
        fault,
        where,
        explanations,
        said,
        origin=origin_of(network.candidate.run, fault.wrong[0].name),
        stopped=searched.stopped,
        tried=searched.tried,
        untried=len(fault.wrong) - len(searched.tried),
    )


def _with_copy(fault: Explained, elsewhere: Sequence[Misplaced]) -> Explained:
    """The fault, with what does not go on with its tap's numbers, or does so in some rows: that tells less."""
    for each in elsewhere:
        if each.fault.place == fault.fault.place and not each.everybody:
            names = several(sorted({opened(name) for name, _ in each.readers}))
            begin, rest = ([], fault.findings) if not each.earlier else (fault.findings[:1], fault.findings[1:])
            says = f"a copy is otherwise: {names} went on with what the reference has here"
            if each.earlier:
                says = f"{names} read what the reference has here in some rows, before it was otherwise in this step"
            fault = replace(fault, findings=[*begin, Finding("from.copy", says, 1.0), *rest])
    return fault


def _of_the_first_step(explanations: Sequence[Explanation], fault: Fault) -> list[Explanation]:
    """Another window that gives all numbers of the first step: in later ones the reference's cache has no such keys."""
    first = {(verdict.name, verdict.step) for verdict in fault.wrong if verdict.step == 0}
    return [
        each if GONE in each.says else replace(each, says=f"{each.says}; {GONE}")
        for each in explanations
        if _WINDOW in each.says.partition(":")[0] and each.whole and not each.contradicted
        if first and first <= {*each.taps}
    ]


def _cells(part: Alone, network: Network) -> Cells:
    item = network.golden[part.verdict.name, part.verdict.step]
    wrong, counts = part.cells > headroom("slice").max, counted(item, network.golden)
    if wrong.shape != counts.shape:  # another shape, or its last rows alone
        wrong = np.zeros(counts.shape, bool)
    return Cells(*item.key, axes_of(item), wrong, counts)


def _lines(network: Network, value: int, wrong: Sequence[Alone]) -> Sequence[Finding]:
    """The reference's lines that make the worst value of the nearest recorded ones, the last first."""
    nodes = network.slices.computing(value)
    if not nodes:
        nodes = [node for part in network.slices.order(value) if (node := network.graph.node(part)) is not None][-1:]
    lines = list(dict.fromkeys(line for node in reversed(nodes) if (line := model_line(node)) is not None))
    findings = [Finding(REFERENCE, _says(line, network), 0.5) for line in lines[:_LINES]]
    if len(lines) > _LINES:
        hidden = ", ".join(_between(network, wrong)[:_HIDDEN]) or "what is between"
        findings.append(Finding(REFERENCE, f"and {len(lines) - _LINES} more lines: record {hidden} next", 0.1))
    return findings


def _between(network: Network, wrong: Sequence[Alone]) -> list[str]:
    """The golden's taps between the wrong ones and the nearest recorded, of the same layer: states first."""
    names, slices = dict[str, None](), network.slices
    for part in wrong:
        value, numbers = network.graph.taps[part.verdict.name, part.verdict.step], numbers_of(part.verdict.name)
        inside = frozenset(slices.order(value)) - {value}
        for (name, _), tap in network.graph.taps.items():
            if tap in inside and tap not in slices.recorded and numbers_of(name) == numbers:
                names[opened(name)] = None
    return sorted(names, key=lambda name: not name.startswith("cache."))


def _says(line: Line, network: Network) -> str:
    text = text_of(line, network.golden)
    return f"{place_of(line)}: {text}" if text else place_of(line)
