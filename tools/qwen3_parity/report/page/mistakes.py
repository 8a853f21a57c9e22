"""What a diagnosis says on the first screen: each named mistake once, with its fix, its evidence and its places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from qwen3_parity.diagnosis.mistake import Mistake
from qwen3_parity.judge.spoken import spoken
from qwen3_parity.report.diagnoses import UNKNOWN, size, unexplained
from qwen3_parity.report.diagnoses import name as place_of
from qwen3_parity.report.explanations import in_taps
from qwen3_parity.report.folder_diagnosis import in_words

if TYPE_CHECKING:  # a diagnosis of texts needs the extra [reference]
    from qwen3_parity.diagnosis.answer import Diagnosis
    from qwen3_parity.diagnosis.explained import Explained
    from qwen3_parity.diagnosis.explanation import Explanation
    from qwen3_parity.diagnosis.text import TokenDiagnosis
    from qwen3_parity.folder.diagnose import FolderDiagnosis

_OTHERWISE = 4


def mistakes_of(diagnosis: Diagnosis) -> list[Mistake]:
    """The mistakes of a network, those with a name first; places with the same mistake stand together."""
    mistakes = sorted(_together(list(_of_network(diagnosis))), key=lambda mistake: not mistake.name)
    return spoken(mistakes, diagnosis.verdicts.case)


def mistakes_of_texts(diagnosis: TokenDiagnosis) -> list[Mistake]:
    """The mistakes of a tokenizer, those with a name first."""
    return sorted(_together(list(_of_texts(diagnosis))), key=lambda mistake: not mistake.name)


def mistakes_of_folder(diagnosis: FolderDiagnosis) -> list[Mistake]:
    """The mistakes behind a folder's red cases, those with a name first."""
    return [replace(mistake, evidence=tuple(_more(mistake))) for mistake in in_words(diagnosis).mistakes]


def _of_network(diagnosis: Diagnosis) -> Iterator[Mistake]:
    for fault in diagnosis.faults:
        yield _of_fault(fault, diagnosis.verdicts.case.name)
    for parameter in diagnosis.parameters:
        yield Mistake("", (f"parameter {parameter.name} {parameter.says}",), places=(parameter.name,))
    for misplaced in diagnosis.misplaced:
        place = misplaced.place.replace("{layer}", "*")
        yield Mistake("", (misplaced.says,), misplaced.fix, (place,))


def _of_fault(fault: Explained, case: str) -> Mistake:
    first = fault.fault.wrong[0]
    link = case, first.name, first.step
    short = fault.fault.place.rpartition(".")[2]
    evidence, origins = [f"{short}: {size(fault)}"], tuple(filter(None, [str(fault.origin or "")]))
    if not fault.explanations:
        said = "; ".join(finding.says for finding in fault.numbers[:2])
        says = f"{UNKNOWN}; what the numbers say: {said}" if said else "; ".join(fault.source[:2]) or UNKNOWN
        says = said if fault.misread else says
        evidence += _beside(fault)
        return Mistake(
            "", (says,), fault.misread, (place_of(fault),), evidence=tuple(evidence), link=link, origins=origins
        )
    best = fault.explanations[0]
    evidence += [f"{short}: {in_taps(best, 'the')}", *_beside(fault)]
    return replace(
        _of(best, place_of(fault)),
        otherwise=tuple(each.name for each in fault.explanations[1:_OTHERWISE] if each.as_good_as(best)),
        evidence=tuple(evidence),
        link=link,
        origins=origins,
    )


def _of(explanation: Explanation, place: str) -> Mistake:
    return Mistake(explanation.name, (explanation.says,), explanation.fix, (place,))


def _beside(fault: Explained) -> Iterator[str]:
    """What is not explained, the reference's first line, and what to record next."""
    yield from unexplained(fault)
    yield from (f"the reference: {line}" for line in fault.source[:1])
    yield from filter(None, [fault.record])


def _of_texts(diagnosis: TokenDiagnosis) -> Iterator[Mistake]:
    from qwen3_parity.report.text_diagnoses import lines, named

    for fault in diagnosis.faults:
        mistake, evidence = Mistake("", ("no known mistake gives these values",), places=(named(fault),)), list[str]()
        for best in fault.explanations[:1]:
            mistake, evidence = _of(best, named(fault)), [f"reproduces {best.whole} of {best.of} texts"]
        yield replace(
            mistake,
            otherwise=tuple(explanation.name for explanation in fault.explanations[1:_OTHERWISE]),
            evidence=(*(line.strip() for line in lines(fault)[:3]), *evidence),
            link=(diagnosis.verdicts.case.name, fault.place, _index(diagnosis, fault.stage)),
        )


def _index(diagnosis: TokenDiagnosis, stage: str) -> int:
    return next((tap.step for tap in diagnosis.verdicts.taps if tap.op == stage and not tap.passed), 0)


def _more(mistake: Mistake) -> Iterator[str]:
    """What the cases' own diagnoses say of a mistake."""
    yield from (f"in {', '.join(note.cases)} it could as well be {note.says}" for note in mistake.otherwise_in)
    for note in (*mistake.findings[:_OTHERWISE], *mistake.record_next[:_OTHERWISE]):
        yield f"{note.says} (in {', '.join(note.cases)})"


def _together(single: Sequence[Mistake]) -> Iterator[Mistake]:
    """Places that the same named mistake explains, as one."""

    def key_of(mistake: Mistake) -> tuple[str, tuple[str, ...]]:
        return mistake.name, mistake.says if mistake.name else mistake.places

    for key in dict.fromkeys(map(key_of, single)):
        same = [mistake for mistake in single if key_of(mistake) == key]
        yield replace(
            same[0],
            places=tuple(place for mistake in same for place in mistake.places),
            evidence=tuple(line for mistake in same for line in mistake.evidence),
            otherwise=tuple(dict.fromkeys(name for mistake in same for name in mistake.otherwise)),
            origins=tuple(dict.fromkeys(line for mistake in same for line in mistake.origins)),
        )
