"""What the weights are that a candidate holds in the place of the checkpoint's, behind a fault that they explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qwen3_golden import Array, pattern_of
from qwen3_parity.blame.values import Values
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.findings.structure.weights import UNKNOWN, structure_of
from qwen3_parity.mistakes.as_loaded import AS_LOADED
from qwen3_parity.mistakes.parameters import held_names, held_rows

_TOLD = 0.99
"""The part of the rows that a structure must give to be what the explanation is called."""
_MOST = 8
"""Weights whose structure is looked for."""


def as_held(explanation: Explanation, values: Values) -> Explanation:
    """The explanation with what is known of the weights as they were loaded; any other one as it is."""
    if explanation.name != AS_LOADED:
        return explanation
    places = (values.place(pattern.replace("{layer}", "0")) for pattern in explanation.place.split(", "))
    kinds = {pattern_of(name) for place in places if place is not None for name in place.parameters}
    names = held_names(values.recording)
    every = {name: held_rows(name, values.recording) for name in names if pattern_of(name) in kinds}
    loaded = {name: rows for name, rows in every.items() if rows is not None}
    name, says = in_words(loaded, values.weights)
    return replace(explanation, name=name, says=says)


def in_words(loaded: Mapping[str, Array], tensors: Mapping[str, Array]) -> tuple[str, str]:
    """What a mistake is called that loaded these rows of parameters, by name, and what is said of it.

    Of a kind in several layers the first one's numbers are said.
    """
    of_kind, known = dict[tuple[str, str], list[str]](), set[str]()
    for name in list(loaded)[:_MOST]:
        finding = structure_of(name, loaded[name], tensors) if name in tensors else None
        if finding is None:
            continue
        is_part = finding.weight < _TOLD and finding.name != UNKNOWN
        part = f" (so are {finding.weight:.0%} of its rows)" if is_part else ""
        of_kind.setdefault((_short(name), finding.name), []).append(finding.says + part)
        known.add(AS_LOADED if is_part else finding.name)
    by_words = dict[str, list[str]]()
    for (short, _), says in of_kind.items():
        others = len(says) - 1 if len(set(says)) > 1 else 0
        layers = "" if not others else f" (and likewise in {others} more layer{'s' * (others > 1)})"
        by_words.setdefault(says[0] + layers, []).append(short)
    begin = f"computes with what was loaded as {', '.join(dict.fromkeys(map(_short, loaded)))}"
    each = "; ".join(f"{' and '.join(shorts)}: {words}" for words, shorts in by_words.items())
    name = known.pop() if len(known) == 1 else AS_LOADED
    return name, f"{begin}, which is not the checkpoint's{each and f'. {each}'}"


def _short(name: str) -> str:
    """The last part of a parameter's name that is no mere "weight"."""
    return name.removesuffix(".weight").rpartition(".")[2]
