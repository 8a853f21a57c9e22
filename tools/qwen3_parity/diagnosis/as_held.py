"""What the weights are that a candidate holds in the place of the checkpoint's, behind a fault that they explain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from qwen3_golden import Array, pattern_of
from qwen3_parity.blame.values import Values
from qwen3_parity.diagnosis.explanation import LAYER, Explanation
from qwen3_parity.diagnosis.findings.structure.decoded import IN_BLOCKS
from qwen3_parity.diagnosis.findings.structure.narrowed import ROUNDED_WEIGHT
from qwen3_parity.diagnosis.findings.structure.weights import ANOTHERS, UNKNOWN, structure_of
from qwen3_parity.diagnosis.known_words import MISREAD, READ_FIX
from qwen3_parity.judge.indices import ranges
from qwen3_parity.mistakes.as_loaded import AS_LOADED, LOAD
from qwen3_parity.mistakes.parameters import held_names, held_rows
from qwen3_parity.slices.network import Network

_TOLD = 0.99
"""The part of the rows that a structure must give to be what the explanation is called."""
_MOST = 48
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
    return replace(explanation, name=name, says=says, fix=fix_of(loaded, values.weights))


def fix_of(loaded: Mapping[str, Array], tensors: Mapping[str, Array]) -> str:
    """What to do about rows of parameters that were loaded otherwise; of packed ones: how they are read."""
    names = (name for name in list(loaded)[:_MOST] if name in tensors)
    findings = (structure_of(name, loaded[name], tensors) for name in names)
    return READ_FIX if any(finding is not None and finding.name in MISREAD for finding in findings) else LOAD


def held_whole(names: Iterable[str], network: Network) -> dict[str, Array]:
    """Those of a graph's parameters that the candidate's recording has whole, as it holds them."""
    rows = {name: held_rows(name, network.candidate) for name in names}
    return {
        name: held for name, held in rows.items() if held is not None and held.shape == network.parameter(name).shape
    }


def in_words(loaded: Mapping[str, Array], tensors: Mapping[str, Array]) -> tuple[str, str]:
    """What a mistake is called that loaded these rows of parameters, by name, and what is said of it.

    Of a kind that is the same in several layers the first one's numbers are said; a few bits are no name for all where
    a layer's are otherwise, or nobody looked.
    """
    layers, of_kind, known = dict[str, list[str]](), dict[tuple[str, str], list[str]](), set[str]()
    says = dict[str, str]()
    for name in loaded:
        layers.setdefault(_short(name), []).append(name)
    for name in list(loaded)[:_MOST]:
        finding = structure_of(name, loaded[name], tensors) if name in tensors else None
        if finding is None:
            continue
        is_part = finding.weight < _TOLD and finding.name not in (UNKNOWN, ANOTHERS)
        says[name] = finding.says + (f" (so are {finding.weight:.0%} of its rows)" if is_part else "")
        of_kind.setdefault((_short(name), finding.name), []).append(name)
        known.add(AS_LOADED if is_part else finding.name)
    by_words = dict[str, list[str]]()
    for (short, _), names in sorted(of_kind.items(), key=lambda item: len(item[1])):  # what few are stands out
        others = len(names) - 1 if len({says[name] for name in names}) > 1 else 0
        likewise = "" if not others else f" (and likewise in {others} more layer{'s' * (others > 1)})"
        label = short if names == layers[short] else f"{short}{_in_layers(names)}"
        by_words.setdefault(says[names[0]] + likewise, []).append(label)
    begin = f"computes with what was loaded as {', '.join(layers)}, which is not the checkpoint's there"
    each = "; ".join(f"{_listed(labels, layers)}: {words}" for words, labels in by_words.items())
    known = {IN_BLOCKS} if known <= {IN_BLOCKS, ROUNDED_WEIGHT} and len(known) > 1 else known
    name = known.pop() if len(known) == 1 and len(loaded) <= _MOST else AS_LOADED
    return name, f"{begin}{each and f'. {each}'}"


def _listed(labels: Sequence[str], every: Collection[str]) -> str:
    if len(labels) == len(every) > 1 and {*labels} == {*every}:
        return "each of them"
    return " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))


def _in_layers(names: Sequence[str]) -> str:
    """Of which layers parameters are, in words; "" of those in none."""
    numbers = [int(match[1]) for name in names if (match := LAYER.search(name))]
    return f" of layer{'s' * (len(numbers) > 1)} {ranges(numbers)}" if numbers else ""


def _short(name: str) -> str:
    """The last part of a parameter's name that is no mere "weight"; of a bias the last two."""
    path, _, kind = name.removesuffix(".weight").rpartition(".")
    return f"{path.rpartition('.')[2]}.{kind}" if kind == "bias" and path else kind
