"""A place of which some layers or steps hold numbers in few bits and others are otherwise: two faults, these first.

Where all do, in several forms, each layer's is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from qwen3_parity.diagnosis.edits.search import Searched
from qwen3_parity.diagnosis.explanation import LAYER
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.findings import Finding, Key, WrongTap
from qwen3_parity.diagnosis.findings.of_graph import wrong_tap
from qwen3_parity.diagnosis.precision import IN_LAYERS, in_bits_of, rounds
from qwen3_parity.judge.indices import ranges
from qwen3_parity.slices.judge import Alone
from qwen3_parity.slices.network import Network

_MOST = 48
"""Layers that are looked at."""
_TOLD_BY = "; told by"


class Part(NamedTuple):
    """Wrong taps of a place and the edits that explain them; `forms`: which bits each layer is in, if not the same.

    `is_rest`: a rounding gives the place's other taps, and not these.
    """

    fault: Fault
    wrong: Sequence[Alone]
    searched: Searched
    forms: str = ""
    is_rest: bool = False


def by_layer(part: Part, network: Network, search: Callable[[Fault], Searched]) -> list[Part]:
    """A place as it is, or what is otherwise in it, searched once more, and what is in few bits."""
    fitting = part.searched.fitting[:1]
    if fitting and not rounds(fitting[0].said):
        return [part]
    forms = {} if fitting else _forms(part.wrong, network)
    few = {*fitting[0].said.taps} if fitting else {_key(each) for each in part.wrong if _layer(each) in forms}
    rest = [each for each in part.wrong if _key(each) not in few]
    if not few or not rest:
        return [part._replace(forms=_in_words(forms))]
    others = tuple(each.verdict for each in part.wrong if _key(each) in few)
    fault = replace(part.fault, wrong=tuple(each.verdict for each in rest))
    again = search(replace(fault, passing=()))
    return [
        Part(replace(fault, passing=(*fault.passing, *others)), rest, again, is_rest=bool(fitting)),
        _of(few, part)._replace(forms=_in_words(forms)),
    ]


def _of(taps: Collection[Key], part: Part) -> Part:
    """The part of these taps alone, with the edits that give all of them."""
    wrong, searched = [each for each in part.wrong if _key(each) in taps], part.searched
    fitting = [each._replace(said=replace(each.said, of=len(taps))) for each in searched.fitting
               if taps == {*each.said.taps}]  # fmt: skip
    tried = tuple(key for key in searched.tried if key in taps)
    fault = replace(part.fault, wrong=tuple(each.verdict for each in wrong))
    return Part(fault, wrong, replace(searched, fitting=fitting, tried=tried))


def _forms(wrong: Sequence[Alone], network: Network) -> dict[str, Finding]:
    """By layer what is said of its worst tap, where that is in few bits; nothing where neither of two layers' is."""
    worst = dict[str, Alone]()
    for each in sorted(wrong, key=lambda each: -each.verdict.share):
        worst.setdefault(_layer(each), each)
    forms = dict[str, Finding]()
    for number, (layer, each) in enumerate([*worst.items()][:_MOST] if len(worst) > 1 else []):
        tap: WrongTap | None = wrong_tap(each, network)
        finding = None if tap is None else in_bits_of(tap)
        if finding is not None:
            forms[layer] = finding
        elif number and not forms:
            return {}
    return forms


def _in_words(forms: dict[str, Finding]) -> str:
    """In which bits each layer is; "" where all are in the same."""
    layers = dict[str, list[int]]()
    for layer in sorted(forms, key=int):
        layers.setdefault(forms[layer].says.partition(_TOLD_BY)[0], []).append(int(layer))
    if len(layers) < 2:
        return ""
    return "; ".join(f"{IN_LAYERS}{'s' * (len(each) > 1)} {ranges(each)}: {says}" for says, each in layers.items())


def _key(part: Alone) -> Key:
    return part.verdict.name, part.verdict.step


def _layer(part: Alone) -> str:
    """The number of a tap's layer; "-1" of a tap in none."""
    match = LAYER.search(part.verdict.name)
    return match[1] if match else "-1"
