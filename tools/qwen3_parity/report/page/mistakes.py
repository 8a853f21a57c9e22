"""What a diagnosis says on the first screen: each named mistake once, with its fix, its evidence and its places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen3_parity.judge.spoken import spoken
from qwen3_parity.report.diagnoses import MISPLACED, TO_MEND, UNKNOWN, reproduces, size, unexplained
from qwen3_parity.report.diagnoses import name as place_of
from qwen3_parity.report.folder_diagnosis import in_words

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


def mistakes_of(diagnosis: Diagnosis) -> list[Mistake]:
    """The mistakes of a network, those with a name first; places with the same mistake stand together."""
    mistakes = sorted(_together(list(_of_network(diagnosis))), key=lambda mistake: not mistake.name)
    return spoken(mistakes, diagnosis.verdicts.case)


def mistakes_of_texts(diagnosis: TokenDiagnosis) -> list[Mistake]:
    """The mistakes of a tokenizer, those with a name first."""
    return sorted(_together(list(_of_texts(diagnosis))), key=lambda mistake: not mistake.name)


def mistakes_of_folder(diagnosis: FolderDiagnosis) -> list[Mistake]:
    """The mistakes behind a folder's red cases, those with a name first."""
    return list(_of_folder(in_words(diagnosis)))


def _of_network(diagnosis: Diagnosis) -> Iterator[Mistake]:
    for fault in diagnosis.faults:
        yield _of_fault(fault, diagnosis.verdicts.case.name)
    for parameter in diagnosis.parameters:
        yield Mistake("", f"parameter {parameter.name} {parameter.says}", "", (parameter.name,))
    for misplaced in diagnosis.misplaced:
        place = misplaced.place.replace("{layer}", "*")
        yield Mistake("", MISPLACED, TO_MEND, (place,))


def _of_fault(fault: Explained, case: str) -> Mistake:
    first = fault.fault.wrong[0]
    link = case, first.name, first.step
    short = fault.fault.place.rpartition(".")[2]
    evidence = [f"{short}: {size(fault)}"]
    if not fault.explanations:
        said = "; ".join(finding.says for finding in fault.numbers[:2])
        says = f"{UNKNOWN}; what the numbers say: {said}" if said else "; ".join(fault.source[:2]) or UNKNOWN
        return Mistake("", says, "", (place_of(fault),), (*evidence, *_beside(fault)), link=link)
    best = fault.explanations[0]
    evidence.append(f"{short}: {reproduces(best, 'the')}")
    others = [explanation.name for explanation in fault.explanations[1:_OTHERWISE] if explanation.as_good_as(best)]
    evidence += _beside(fault)
    return Mistake(best.name, best.says, best.fix, (place_of(fault),), tuple(evidence), tuple(others), link=link)


def _beside(fault: Explained) -> Iterator[str]:
    """What is not explained, the reference's first line, and what to record next."""
    yield from unexplained(fault)
    yield from (f"the reference: {line}" for line in fault.source[:1])
    yield from filter(None, [fault.record])


def _of_texts(diagnosis: TokenDiagnosis) -> Iterator[Mistake]:
    from qwen3_parity.report.text_diagnoses import lines, named

    for fault in diagnosis.faults:
        link = diagnosis.verdicts.case.name, f"tokenizer.{fault.stage}", _index(diagnosis, fault.stage)
        said = [line.strip() for line in lines(fault)]
        best = fault.explanations[0] if fault.explanations else None
        if best is None:
            yield Mistake("", "no known mistake gives these values", "", (named(fault),), tuple(said[:3]), link=link)
            continue
        reproduces = f"reproduces {best.whole} of {best.of} texts"
        others = tuple(explanation.name for explanation in fault.explanations[1:_OTHERWISE])
        yield Mistake(best.name, best.says, best.fix, (named(fault),), (*said[:3], reproduces), others, link=link)


def _index(diagnosis: TokenDiagnosis, stage: str) -> int:
    return next((tap.step for tap in diagnosis.verdicts.taps if tap.op == stage and not tap.passed), 0)


def _of_folder(diagnosis: FolderDiagnosis) -> Iterator[Mistake]:
    red = len(diagnosis.folder.red)
    for mistake in diagnosis.mistakes:
        says, others = "; it ".join(mistake.says[:_OTHERWISE]), tuple(mistake.otherwise)
        evidence = (
            f"in {len(mistake.cases)} of {red} red cases",
            *_more(mistake.otherwise_in, mistake.findings, mistake.record_next),
        )
        yield Mistake(mistake.name, says, mistake.fix, tuple(mistake.places), evidence, others, tuple(mistake.cases))
    for group in diagnosis.apart:
        evidence = (f"in {len(group.cases)} of {red} red cases", *_more((), group.findings, group.record_next))
        yield Mistake("", group.reason, "", (), evidence, (), tuple(group.cases))


def _more(otherwise: Sequence[Note], findings: Sequence[Note], record_next: Sequence[Note]) -> Iterator[str]:
    """What the cases' own diagnoses say of a mistake."""
    yield from (f"in {', '.join(note.cases)} it could as well be {note.says}" for note in otherwise)
    for note in (*findings[:_OTHERWISE], *record_next[:_OTHERWISE]):
        yield f"{note.says} (in {', '.join(note.cases)})"


def _together(single: Sequence[Mistake]) -> Iterator[Mistake]:
    """Places that the same named mistake explains, as one."""

    def key_of(mistake: Mistake) -> tuple[str, str | tuple[str, ...]]:
        return mistake.name, mistake.says if mistake.name else mistake.places

    for key in dict.fromkeys(map(key_of, single)):
        same = [mistake for mistake in single if key_of(mistake) == key]
        yield Mistake(
            same[0].name,
            same[0].says,
            same[0].fix,
            tuple(place for mistake in same for place in mistake.places),
            tuple(line for mistake in same for line in mistake.evidence),
            tuple(dict.fromkeys(name for mistake in same for name in mistake.otherwise)),
            (),
            same[0].link,
        )
