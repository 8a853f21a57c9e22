"""What a diagnosis says on the first screen: each named mistake once, with its fix, its evidence and its places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen3_parity.report.diagnoses import MISPLACED, TO_MEND, UNKNOWN, reproduces, size, unexplained
from qwen3_parity.report.diagnoses import name as place_of

if TYPE_CHECKING:  # a diagnosis of texts needs the extra [reference]
    from qwen3_parity.diagnosis.answer import Diagnosis
    from qwen3_parity.diagnosis.explained import Explained
    from qwen3_parity.diagnosis.text import TokenDiagnosis
    from qwen3_parity.folder.diagnose import FolderDiagnosis, Note

_OTHERWISE = 4


@dataclass(frozen=True)
class Mistake:
    """A mistake behind what is wrong: `says` completes "it …"; `name` is empty where none is known.

    `places` are patterns of taps, `link` the case and the first tap (name, step) that show it, `cases` a folder's.
    """

    name: str
    says: str
    fix: str
    places: tuple[str, ...]
    evidence: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    link: tuple[str, str, int] | None = None


def mistakes_of(found: Diagnosis) -> list[Mistake]:
    """The mistakes of a network, those with a name first; places with the same mistake stand together."""
    return sorted(_together(list(_of_network(found))), key=lambda one: not one.name)


def mistakes_of_texts(found: TokenDiagnosis) -> list[Mistake]:
    """The mistakes of a tokenizer, those with a name first."""
    return sorted(_together(list(_of_texts(found))), key=lambda one: not one.name)


def mistakes_of_folder(found: FolderDiagnosis) -> list[Mistake]:
    """The mistakes behind a folder's red cases, those with a name first."""
    return list(_of_folder(found))


def _of_network(found: Diagnosis) -> Iterator[Mistake]:
    for fault in found.faults:
        yield _of_fault(fault, found.verdicts.case.name)
    for one in found.parameters:
        yield Mistake("", f"parameter {one.name} {one.says}", "", (one.name,))
    for misplaced in found.misplaced:
        place = misplaced.place.replace("{layer}", "*")
        yield Mistake("", MISPLACED, TO_MEND, (place,))


def _of_fault(fault: Explained, case: str) -> Mistake:
    first = fault.fault.wrong[0]
    link = case, first.name, first.step
    short = fault.fault.place.rpartition(".")[2]
    evidence = [f"{short}: {size(fault)}"]
    if not fault.explanations:
        said = "; ".join(one.says for one in fault.numbers[:2])
        says = f"{UNKNOWN}; what the numbers say: {said}" if said else "; ".join(fault.source[:2]) or UNKNOWN
        return Mistake("", says, "", (place_of(fault),), (*evidence, *_beside(fault)), link=link)
    best = fault.explanations[0]
    evidence.append(f"{short}: {reproduces(best, 'the')}")
    others = [one.name for one in fault.explanations[1:_OTHERWISE] if one.as_good_as(best)]
    evidence += _beside(fault)
    return Mistake(best.name, best.says, best.fix, (place_of(fault),), tuple(evidence), tuple(others), link=link)


def _beside(fault: Explained) -> Iterator[str]:
    """What is not explained, the reference's first line, and what to record next."""
    yield from unexplained(fault)
    yield from (f"the reference: {line}" for line in fault.source[:1])
    yield from filter(None, [fault.record])


def _of_texts(found: TokenDiagnosis) -> Iterator[Mistake]:
    from qwen3_parity.report.text_diagnoses import lines, named

    for fault in found.faults:
        link = found.verdicts.case.name, f"tokenizer.{fault.stage}", _index(found, fault.stage)
        said = [line.strip() for line in lines(fault)]
        best = fault.explanations[0] if fault.explanations else None
        if best is None:
            yield Mistake("", "no known mistake gives these values", "", (named(fault),), tuple(said[:3]), link=link)
            continue
        reproduces = f"reproduces {best.whole} of {best.of} texts"
        others = tuple(one.name for one in fault.explanations[1:_OTHERWISE])
        yield Mistake(best.name, best.says, best.fix, (named(fault),), (*said[:3], reproduces), others, link=link)


def _index(found: TokenDiagnosis, stage: str) -> int:
    return next((tap.step for tap in found.verdicts.taps if tap.op == stage and not tap.passed), 0)


def _of_folder(found: FolderDiagnosis) -> Iterator[Mistake]:
    red = len(found.folder.red)
    for one in found.mistakes:
        says, others = "; it ".join(one.says[:_OTHERWISE]), tuple(one.otherwise)
        evidence = (f"in {len(one.cases)} of {red} red cases", *_more(one.otherwise_in, one.findings, one.record_next))
        yield Mistake(one.name, says, one.fix, tuple(one.places), evidence, others, tuple(one.cases))
    for apart in found.apart:
        evidence = (f"in {len(apart.cases)} of {red} red cases", *_more((), apart.findings, apart.record_next))
        yield Mistake("", apart.reason, "", (), evidence, (), tuple(apart.cases))


def _more(otherwise: Sequence[Note], findings: Sequence[Note], record_next: Sequence[Note]) -> Iterator[str]:
    """What the cases' own diagnoses say of a mistake."""
    yield from (f"in {', '.join(note.cases)} it could as well be {note.says}" for note in otherwise)
    for note in (*findings[:_OTHERWISE], *record_next[:_OTHERWISE]):
        yield f"{note.says} (in {', '.join(note.cases)})"


def _together(single: Sequence[Mistake]) -> Iterator[Mistake]:
    """Places that the same named mistake explains, as one."""
    names = dict.fromkeys((one.name, one.says) if one.name else (one.name, one.places) for one in single)
    for key in names:
        same = [one for one in single if ((one.name, one.says) if one.name else (one.name, one.places)) == key]
        yield Mistake(
            same[0].name,
            same[0].says,
            same[0].fix,
            tuple(place for one in same for place in one.places),
            tuple(line for one in same for line in one.evidence),
            tuple(dict.fromkeys(name for one in same for name in one.otherwise)),
            (),
            same[0].link,
        )
