"""The edits that explain a fault of a network with a graph, as a diagnosis says them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from qwen3_parity.diagnosis.edits.edit import Edit, Written
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.search import ENOUGH, Fitting, Searched, search
from qwen3_parity.diagnosis.edits.target import Target, target
from qwen3_parity.diagnosis.edits.visibility import visibility
from qwen3_parity.diagnosis.edits.words import line_of, read_line
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.findings.product_of_graph import product_of
from qwen3_parity.diagnosis.findings.structure.blocks import blocks
from qwen3_parity.diagnosis.known_words import MISREAD, READ_FIX
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.mistakes.as_loaded import LOAD
from qwen3_parity.mistakes.parameters import loaded
from qwen3_parity.slices.network import Network
from qwen3_parity.slices.source import place_of, text_of
from qwen3_spec.graph import Line

_NUMBER = re.compile(r"\d+\.\d+(?:e[-+]\d+)?|(?<![\w.])\d+(?![\w.])")
_BITS = re.compile(r"\bint(\d+)\b")
_ROUNDED, _PARAMETER = "edit.rounded", "edit.parameter"
_FEWER = frozenset({"leaves the last of the chosen out", "chooses one fewer"})
_OF_HELD = ("weight.", "structure.")
"""How edits are called that are told by the numbers which a recording has of parameters."""
_CALLERS = 3
"""Lines that call one of an edit, and are said."""
_SHOWN = 3
"""Edits that fit equally well and are all said."""


def explain(
    fault: Fault,
    network: Network,
    known: Sequence[Edit] = (),
    until: int = ENOUGH,
    late: Callable[[], bool] = lambda: False,
    *,
    new: bool = True,
    passed: Collection[int] = (),
) -> Searched:
    """The edits that give the candidate's numbers at a fault's taps; `known` ones explain other faults.

    `passed` are the values of taps that are right by themselves: who reads what they read has it, and reads it wrong.
    No more are looked for after `until`, in counted work, or where it is `late`; without `new` ones the known alone.
    """
    targets, passing = _targets(fault.wrong, network), _targets(fault.passing, network)
    searched = search(targets, passing, known, until, late, new=new, beside=_beside(fault, network, passed))
    fits = [fitting for fitting in searched.fitting if not fitting.is_nonsense]
    best = fits[0] if fits else None
    alike = [fitting for fitting in fits if best is not None and fitting.as_good_as(best)]
    different = {_NUMBER.sub(_shortly, fitting.said.says): fitting for fitting in reversed(alike)}
    alike = [fitting for fitting in alike if fitting in different.values()][:_SHOWN]
    alike = _of_fewer_chosen(alike, targets)
    tried = [each for each in targets if each.region.key in searched.tried]
    alike = [_with_other_steps(fitting, tried) for fitting in alike]
    return replace(searched, fitting=[_said(fitting, fault, network, passed) for fitting in alike])


def _beside(fault: Fault, network: Network, passed: Collection[int]) -> list[Target]:
    """The right taps of other places than a fault's."""
    mine = {(verdict.name, verdict.step) for verdict in fault.passing}
    keys = (key for key, value in network.graph.taps.items() if value in passed and key not in mine)
    return [each for key in keys if key in network.candidate and (each := target(network, *key)) is not None]


def _of_fewer_chosen(alike: list[Fitting], targets: Sequence[Target]) -> list[Fitting]:
    """That fewer are chosen, alone, where it gives the numbers and no choice was recorded: its shape is another."""
    for fitting in alike:
        at = next((x for x in targets if x.region.key == fitting.said.taps[0]), None)
        values = [] if at is None else [value for site in fitting.edit.changes for value in at.region.at(site)]
        if at is None or not values or fitting.edit.says not in _FEWER:
            continue
        network, node = at.region.network, at.region.node(values[0])
        if node is None or network.users.get(values[0], {}).keys() & network.slices.recorded.keys():
            continue
        count = int(node.operands[1])
        return [fitting._replace(said=replace(fitting.said, says=f"chooses {count - 1}, not {count}"))]
    return alike


def _with_other_steps(fitting: Fitting, targets: Sequence[Target]) -> Fitting:
    """A rounding that gives most taps as a whole, and those where few cells fall on another step: no other mistake."""
    said, of_weight = fitting.said, fitting.edit.name == _PARAMETER and fitting.edit.says.startswith("rounds ")
    if not (fitting.edit.name == _ROUNDED or of_weight) or said.partly or 2 * said.whole < said.of:
        return fitting
    others = (x for x in targets if x.region.key not in said.taps)
    left = [x for x in others if (_is_but_for_ties(x, said.says) if of_weight else x.is_on_other_steps(fitting.edit))]
    if not left:
        return fitting
    taps = "another tap" if len(left) == 1 else f"{len(left)} more taps"
    few = "weights, which" if of_weight else "cells, whose inputs"
    says = f"{said.says} (at {taps} but for few {few} stand at the edge of a step)"
    return fitting._replace(said=replace(said, says=says, taps=(*said.taps, *(x.region.key for x in left))))


def _is_but_for_ties(target: Target, says: str) -> bool:
    """Whether a tap's weight is in as few bits as is said, but for codes on a tie: with another row it is not."""
    network = target.region.network
    product = product_of(network, target.region.key, headroom("slice", "narrow" if network.narrow else "").max)
    fits = None if product is None else blocks(product)
    bits = _BITS.search(says)
    return fits is not None and fits[2] == 1 and (bits is None or f" {bits[1]} bits" in fits[1])


def _shortly(number: re.Match[str]) -> str:
    """A number in few digits: a fitted one beside the config's that it is."""
    return f"{float(number[0]):.3g}"


def _targets(verdicts: Sequence[OpVerdict], network: Network) -> list[Target]:
    targets = (target(network, verdict.name, verdict.step) for verdict in verdicts if not verdict.reason)
    return [each for each in targets if each is not None]


def _said(fitting: Fitting, fault: Fault, network: Network, passed: Collection[int]) -> Fitting:
    """With the place, the line and its code, and what is seen otherwise."""
    said, written = replace(fitting.said, place=fault.place), fitting.edit.line
    first = target(network, *fitting.said.taps[0])
    if written is not None and first is not None:
        written = _read_by_others(fitting.edit, first, passed) or written
    otherwise = None if first is None else visibility(first.region, fitting.edit, first.rows_of(said.part))
    if otherwise is not None:
        said = replace(said, says=f"{said.says}: {otherwise.says}")
        if written is not None and otherwise.reader not in (None, *written):
            written = written._replace(reader=otherwise.reader)
    as_stored = None if first is None else _as_stored(fitting.edit, first.region)
    if as_stored is False and not any(site.file for site in fitting.edit.changes):
        said = replace(said, fix=READ_FIX if said.name in MISREAD else LOAD)
    elif written is not None:
        line, _, reader = written
        called = _called_at(_callers(written, fitting.edit, first))
        read = "" if reader is None else f", read at {reader.file}:{reader.number}"
        fix = text_of(line, network.golden) or f"as {place_of(line)} has it"
        fix = fix if as_stored else LOAD if as_stored is False else f"{LOAD}; where they are: {fix}"
        said = replace(said, says=f"{said.says}, at {place_of(line)}{called}{read}", fix=fix)
    return fitting._replace(said=said)


def _as_stored(edit: Edit, region: Region) -> bool | None:
    """False where all that an edit changes are parameters that were loaded otherwise; None where nobody says it."""
    values = {value for site in edit.changes for value in region.at(site)}
    if edit.name == "edit.parameter":  # a weight where it is multiplied
        values = {
            leaf for value in values for leaf in ([value] if region.node(value) is None else _weights(value, region))
        }
    if not values or not region.parameters >= values:
        return True
    if edit.name.startswith(_OF_HELD):
        return False
    network = region.network
    every = {loaded(region.names[value], network.golden, network.candidate) for value in values}
    return False if False in every else None if None in every else True


def _weights(value: int, region: Region) -> list[int]:
    node = region.node(value)
    return [] if node is None else [read for read in node.reads if read in region.parameters]


def _read_by_others(edit: Edit, target: Target, passed: Collection[int]) -> Written | None:
    """The line of an edit of what another tap reads, too, and rightly so, with the line that reads it otherwise."""
    region = target.region
    values = [value for site in edit.changes for value in region.at(site)]
    if len(values) != 1 or len(edit.changes) != 1:
        return None
    beside = [value for value in passed if value != region.value]
    if region.node(values[0]) is not None:
        return _read_beside(edit, target, values[0], beside)
    slices, readers = region.network.slices, region.users.get(values[0], ())
    shared = values[0] in slices.recorded and any(values[0] in slices.reads(value) for value in beside)
    return read_line(region, readers[0], values[0]) if shared and readers else None


def _read_beside(edit: Edit, target: Target, value: int, beside: Sequence[int]) -> Written | None:
    """An edit's line with the line that reads the value of its op, where a right tap that reads it has no such edit."""
    region, slices = target.region, target.region.network.slices
    inside = (each for each in beside if value in slices.order(each))
    spoiled = next((each for each in inside if _is_spoiled(edit, each, region.network)), None)
    readers = [] if spoiled is None else [x for x in region.users.get(value, ()) if x not in slices.order(spoiled)]
    reader = read_line(region, readers[0], value) if readers else None
    return None if reader is None or edit.line is None else edit.line._replace(reader=reader.line)


def _is_spoiled(edit: Edit, value: int, network: Network) -> bool:
    """Whether a right tap would be wrong with an edit."""
    key = next(key for key, tap in network.graph.taps.items() if tap == value)
    passing = target(network, *key)
    return passing is not None and passing.spoiled_by(edit)


def _callers(written: Written, edit: Edit, target: Target | None) -> list[Line]:
    """The lines that call what has an edit's line at this place, in their order."""
    if target is None or written.caller is None:
        return [] if written.caller is None else [written.caller]
    region = target.region
    lines = [line_of(region, value) for site in edit.changes if site.file for value in region.at(site)]
    callers = {
        each.caller for each in lines if each is not None and each.caller is not None and each.line == written.line
    }
    return sorted(callers, key=lambda line: (line.file, line.number)) or [written.caller]


def _called_at(callers: Sequence[Line]) -> str:
    """The lines of one file in words; nothing of more than a reader looks up, or of several files."""
    if not callers or len(callers) > _CALLERS or len({line.file for line in callers}) > 1:
        return ""
    *firsts, last = (str(number) for number in dict.fromkeys(line.number for line in callers))
    return f", called at {callers[0].file}:{', '.join(firsts)}{' and ' if firsts else ''}{last}"
