"""Faults whose numbers are in few bits, as a lossy engine has them: told apart from what is done otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from qwen3_golden import pb
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.findings import Finding, WrongTap
from qwen3_parity.diagnosis.findings.numbers.grids import grid
from qwen3_parity.diagnosis.findings.numbers.inputs import rounded_input
from qwen3_parity.diagnosis.findings.structure.as_large import AS_LARGE
from qwen3_parity.diagnosis.findings.structure.weights import weight_structure
from qwen3_parity.diagnosis.parameters import FOREIGN
from qwen3_parity.judge.match import OTHER_BYTES
from qwen3_parity.judge.verdict import Verdicts

_FINDINGS = frozenset(
    {
        *("structure.blocks", "structure.rounded_inputs", "structure.rounded_both"),
        *(AS_LARGE, "invariant.grid", "fit.grid", "cache.quantised", "weight.rounded"),
    }
)
Finder = Callable[[WrongTap], Finding | None]
_FINDERS: tuple[Finder, ...] = (weight_structure, grid, rounded_input)
"""What finds these."""
_NAMES = frozenset({"edit.rounded", "weight.quantised"})
_HALF, _HALVES = ".half_precision", ("bfloat16", "float16")
IN_LAYERS, _OF_LAYERS = "layer", " of layer"
"""How what is said begins where layers are in different bits, and what it has in it of weights as they were loaded."""
NOT_FINITE = "not_finite"
"""How the names of findings end that a tap holds NaN or an infinity."""
_SURE, _ON_A_GRID, _OF_SOME = 0.99, 0.9, 0.85
"""What a finding must tell; of numbers on a grid, which are no farther off than its steps; and what is told of one
that wrong taps of the place contradict."""


def in_few_bits(fault: Explained) -> bool:
    """Whether every wrong tap of a place that was tried is what the reference makes with numbers in few bits."""
    if fault.left:
        return False
    if fault.is_known:
        return rounds(fault.explanations[0])
    numbers = fault.numbers
    return bool(numbers) and _tells(numbers[0])


def ordered(faults: Sequence[Explained], verdicts: Verdicts) -> list[Explained]:
    """The faults with what is not finite first, and what only scatters as roundings do behind what tells more."""
    broken = {(tap.name, tap.step) for tap in verdicts.not_finite}

    def order(fault: Explained) -> tuple[bool, bool]:
        return broken.isdisjoint((verdict.name, verdict.step) for verdict in fault.fault.wrong), _scatters(fault)

    return sorted(faults, key=order)


def others_first(faults: Sequence[Explained]) -> list[Explained]:
    """What is done otherwise, what is rounded beside the weights, then weights in few bits, those of several first."""
    rounded = also_rounded(faults)

    def order(fault: Explained) -> tuple[bool, bool, bool]:
        few = in_few_bits(fault)
        return few, few and fault not in rounded, few and not _differs(fault)

    return sorted(faults, key=order)


def without_fix(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis without what to change at places in few bits, where the candidate itself says that it is lossy."""
    faults = [
        replace(fault, explanations=[replace(explanation, fix="") for explanation in fault.explanations])
        if declared(fault, diagnosis)
        else fault
        for fault in diagnosis.faults
    ]
    return replace(diagnosis, faults=faults)


def declared(fault: Explained, diagnosis: Diagnosis) -> bool:
    """Whether a place holds numbers in few bits, and the candidate says of itself that it has no claim to parity.

    Of an engine that is quantised that is no results in half precision.
    """
    lossy = diagnosis.verdicts.arithmetic == pb.ARITHMETIC_OTHER
    return lossy and in_few_bits(fault) and fault not in also_rounded(diagnosis.faults)


def also_rounded(faults: Sequence[Explained]) -> list[Explained]:
    """Places of a quantised engine that are rounded to half precision, and are no weight's and no cache's: tables,
    norms, a router; none where half precision is all that an engine is lossy by.
    """
    few = [fault for fault in faults if in_few_bits(fault)]
    half = [fault for fault in few if _is_half(fault)]
    return [fault for fault in half if not _is_stored(fault)] if len(half) < len(few) else []


def _first(fault: Explained) -> Explanation | Finding:
    """What a place in few bits is known by."""
    return fault.explanations[0] if fault.is_known else fault.numbers[0]


def _is_half(fault: Explained) -> bool:
    """Whether what is rounded at a place is so to half precision, and no codes."""
    first = _first(fault)
    is_of_codes = first.name.startswith("structure.") or first.name == "weight.quantised"
    return not is_of_codes and (first.name.endswith(_HALF) or any(half in first.says for half in _HALVES))


def _is_stored(fault: Explained) -> bool:
    """Whether what is rounded at a place is a weight, or a cache."""
    first = _first(fault)
    of_weight = first.name == "edit.parameter" and ".weight " in first.says
    return of_weight or first.name.startswith("weight.") or "cache" in first.name + first.says


def scatters(fault: Explained, diagnosis: Diagnosis) -> bool:
    """Whether a place is off as roundings make it, of a candidate that declares them: nobody can tell more from it."""
    return diagnosis.verdicts.arithmetic == pb.ARITHMETIC_OTHER and _scatters(fault)


def _scatters(fault: Explained) -> bool:
    return not fault.is_known and bool(fault.numbers) and fault.numbers[0].name == "fit.scattered"


def lossy_alone(diagnosis: Diagnosis) -> str:
    """What is said of a candidate that says itself that it is lossy, where nothing else is wrong; "" of any other.

    Nobody can mend it: a person reads what it costs and decides.
    """
    beside = [
        *diagnosis.misplaced,
        # Other numbers are what rounding weights makes; what is computed with them is judged op by op.
        *(parameter for parameter in diagnosis.parameters if not parameter.says.startswith(FOREIGN)),
        *(problem for problem in diagnosis.verdicts.structural if not problem.got.endswith(OTHER_BYTES)),
    ]
    beside += diagnosis.verdicts.not_finite
    if not diagnosis.faults or beside or not all(declared(fault, diagnosis) for fault in diagnosis.faults):
        return ""
    dark = sum(not fault.is_known and fault.numbers[0].name == AS_LARGE for fault in diagnosis.faults)
    fix = "there is nothing to fix"
    if dark:  # a mistake may be as large, and scatter
        fix = f"nothing to fix is known; of {dark} of {len(diagnosis.faults)} only how large the errors are"
    return f"{summary(diagnosis.faults)}, and the recording declares that: {fix}"


def _tells(finding: Finding) -> bool:
    exact = finding.name.startswith("structure.") and finding.name != AS_LARGE
    least = _SURE if exact else _ON_A_GRID
    return finding.name in _FINDINGS and finding.weight >= least


def held_by_all(numbers: list[Finding], alike: Sequence[WrongTap]) -> list[Finding]:
    """The findings on the worst tap of a place, the first one less certain where it is of few bits and others' are not.

    `alike` are further wrong taps of the place.
    """
    if not numbers or numbers[0].name not in _FINDINGS:
        return numbers
    finders = [*_FINDERS]
    for tap in alike:
        if in_bits_of(tap, finders) is None:
            says = f"{numbers[0].says}; at {tap.name} (step {tap.step}) they are no such numbers"
            return _of_some([replace(numbers[0], says=says), *numbers[1:]])
    return numbers


def beside_a_rounding(numbers: list[Finding]) -> list[Finding]:
    """The findings on a tap that a rounding does not give which gives others of its place: that its numbers are on a
    grid tells less there, and a structure that gives them all does not.
    """
    is_structure = bool(numbers) and numbers[0].name.startswith("structure.")
    return numbers if is_structure else _of_some(numbers)


def _of_some(numbers: Sequence[Finding]) -> list[Finding]:
    """The findings, the first one less certain: of some taps of the place alone."""
    return [*(replace(first, weight=min(first.weight, _OF_SOME)) for first in numbers[:1]), *numbers[1:]]


def in_bits_of(tap: WrongTap, finders: list[Finder] | None = None) -> Finding | None:
    """In which few bits a wrong tap is, for sure; who told it comes first in the `finders`: it does of the next."""
    finders = [*_FINDERS] if finders is None else finders
    for finder in finders:
        with np.errstate(all="ignore"):
            finding = finder(tap)
        if finding is not None and _tells(finding):
            finders.sort(key=lambda each: each is not finder)
            return finding
    return None


def rounds(explanation: Explanation) -> bool:
    """Whether a mistake is no more than that numbers are in few bits."""
    name, weight = explanation.name, explanation.name == "edit.parameter"
    return not explanation.partly and (
        name in _NAMES | _FINDINGS or name.endswith(_HALF) or (weight and explanation.says.startswith("rounds "))
    )


def summary(faults: Sequence[Explained], *, whole: bool = True) -> str:
    """How many of these places hold numbers in few bits, and which do not; "" where none does.

    `whole`: nothing is wrong beside these places.
    """
    others, rounded = [fault for fault in faults if not in_few_bits(fault)], also_rounded(faults)
    few = [fault for fault in faults if fault not in others and fault not in rounded]
    if not few:
        return ""
    every, bits = len(faults), f"numbers in few bits, as a lossy engine does{_differing(few)}"
    if len(few) == every:
        holds = "it holds" if every == 1 else "both hold" if every == 2 else f"all {every} hold"
        rest = "; nothing else is otherwise" if whole and not any(fault.untried for fault in faults) else ""
        return f"{holds} {bits}{rest}"
    rest = f"; {'the other one is' if len(others) == 1 else 'the others are'} {_places(others)}" if others else ""
    also = f"; also rounded, which is seldom meant: {_places(rounded)}" if rounded else ""
    return f"{len(few)} of them {'holds' if len(few) == 1 else 'hold'} {bits}{rest}{also}"


def _differing(few: Sequence[Explained]) -> str:
    """Of which places in few bits the layers are in different ones; two faults of a place are where mistakes say it."""
    count = Counter(fault.fault.place for fault in few)
    differing = [fault for fault in few if _differs(fault) or count[fault.fault.place] > 1]
    return f" (not the same in all layers of {_places(differing)})" if differing else ""


def _differs(fault: Explained) -> bool:
    """Whether the layers of a place in few bits are in different ones."""
    says = _first(fault).says
    return says.startswith(IN_LAYERS) or _OF_LAYERS in says


def _places(faults: Sequence[Explained]) -> str:
    return ", ".join(dict.fromkeys(fault.fault.place.replace("{layer}", "*") for fault in faults))
