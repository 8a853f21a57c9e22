"""Which tap to record next: one that tells apart what explains a group equally well, or one that halves the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qwen3_golden import pattern_of
from qwen3_parity.blame.values import Values
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault


def next_tap(fault: Fault, explanations: Sequence[Explanation], values: Values) -> str:
    """What to record to know more, in one line; empty where one mistake explains all, or no tap is hidden."""
    behind = _made_of(fault, values)
    if not behind:
        return ""
    if not explanations:
        half = min(behind, key=lambda name: abs(2 * len(behind[name]) - len(behind)))
        few = len(behind[half])
        says = f"record {half} next: it says whether the mistake is in the {few} of {len(behind)} hidden ops up to it"
        return says + _of_a_kernel(half)
    equal = [explanation for explanation in explanations if explanation.as_good_as(explanations[0])]
    best, others = equal[0], [explanation for explanation in equal[1:] if explanation.name != equal[0].name]
    if not others:
        return ""
    distinguished = {
        name: [explanation for explanation in others if _wrong(made_of, best) != _wrong(made_of, explanation)]
        for name, made_of in behind.items()
    }
    tap = max(distinguished, key=lambda name: len(distinguished[name]))
    if distinguished[tap]:
        names = ", ".join(explanation.name for explanation in distinguished[tap])
        return f"record {tap} next: it tells {best.name} from {names}" + _of_a_kernel(tap)
    wrong = next((name for name, made_of in behind.items() if _wrong(made_of, best)), None)
    names = ", ".join(explanation.name for explanation in others)
    if wrong is None:
        return ""
    return (
        f"record {wrong} next, and what it reads: {best.name} and {names} are the same from here{_of_a_kernel(wrong)}"
    )


def _of_a_kernel(tap: str) -> str:
    """What to do where the tap is inside of a fused attention kernel, which shows none."""
    if tap.rpartition(".")[2] not in ("scores", "probs"):
        return ""
    return (
        "; where a fused kernel has none to record, run the case once with plain attention: if that is right, it is "
        "the kernel: the type that it holds Q, K, V and its sums in, its mask, its scaling"
    )


def _wrong(places: frozenset[str], explanation: Explanation) -> bool:
    """Whether a tap that is made by these places is wrong if the explanation is right."""
    return not places.isdisjoint(explanation.place.split(", "))


def _made_of(fault: Fault, values: Values) -> Mapping[str, frozenset[str]]:
    """Of each hidden tap of the first wrong group: the patterns of the group's places that lead to it, its own too."""
    others = frozenset(fault.wrong[0].others)
    hidden = frozenset(name for name in others if not _is_recorded(name, others, values))
    made_of: dict[str, frozenset[str]] = {}

    def lead(name: str) -> frozenset[str]:
        if name not in made_of:
            place = values.place(name)
            made_of[name] = frozenset({pattern_of(name)})
            for read in () if place is None else values.reads(place):
                made_of[name] |= lead(read) if read in hidden else frozenset()
        return made_of[name]

    return {name: lead(name) for name in sorted(hidden)}


def _is_recorded(name: str, hidden: frozenset[str], values: Values) -> bool:
    """Whether a hidden tap is a copy of recorded ones: it would say nothing new."""
    place = values.place(name)
    return place is not None and place.op == "copy" and hidden.isdisjoint(values.reads(place))
