"""One diagnosis for a folder: the mistakes behind its red cases, each with every case that it explains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial as with_first
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from qwen3_golden import ParityError, pb, read
from qwen3_parity.checkpoints.weights import checkpoints_of, weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.search import ENOUGH
from qwen3_parity.folder.check import Folder
from qwen3_parity.judge.verdict import Verdicts

if TYPE_CHECKING:
    from qwen3_parity.diagnosis.text import TokenDiagnosis

_NAMED = 8
"""Names of mistakes that a case is tried with again where the search for its own ended too early."""
IN_ALL = 8 * ENOUGH
"""Counted work, in evaluated elements, that a run over all goldens spends in the end: a minute of a quiet core."""
_FLIPS = 5
"""Positions of a case that are told where another token is the best."""


class Way(NamedTuple):
    """A mistake that reproduces what is wrong at a place of a case; one that is `fitted` was read off each tap."""

    name: str
    says: str
    fix: str
    place: str
    rank: float = 0
    fitted: bool = False


class Sign(NamedTuple):
    """What is wrong at one place of a case; `ways` reproduce it equally well, `otherwise` says it where none does.

    `findings` are what the numbers say, `record_next` which tap would tell more, `origin` the candidate's line. With
    neither ways nor otherwise a sign is a `note`: what the case's own diagnosis says beside its places.
    """

    case: str
    place: str
    ways: Sequence[Way] = ()
    otherwise: str = ""
    findings: Sequence[str] = ()
    record_next: str = ""
    origin: str = ""
    note: str = ""


@dataclass(frozen=True)
class Note:
    """A line of the diagnoses of single cases, with the cases that it stands in."""

    says: str
    cases: Sequence[str]


@dataclass(frozen=True)
class Mistake:
    """A mistake with the cases that it was made in, and the places where; `says` may have other numbers by case.

    `otherwise` are mistakes that the same numbers could as well be in all of these cases, `otherwise_in` those that
    they could be in some. `findings` are what the numbers say by themselves, `record_next` taps that would tell more,
    `origins` lines of the candidate's own code that make such taps.
    """

    name: str
    says: Sequence[str]
    fix: str
    places: Sequence[str]
    cases: Sequence[str]
    otherwise: Sequence[str] = ()
    otherwise_in: Sequence[Note] = ()
    findings: Sequence[Note] = ()
    record_next: Sequence[Note] = ()
    origins: Sequence[str] = ()


@dataclass(frozen=True)
class Apart:
    """What no named mistake reproduces, by what is known of it, with the cases that show it; see `Mistake`."""

    reason: str
    cases: Sequence[str]
    findings: Sequence[Note] = ()
    record_next: Sequence[Note] = ()
    origins: Sequence[str] = ()


@dataclass(frozen=True)
class FolderDiagnosis:
    """The folder judged, the mistakes that explain most cases first, what stands apart, and what is told beside it."""

    folder: Folder
    mistakes: Sequence[Mistake]
    apart: Sequence[Apart]
    notes: Sequence[Note] = ()


class Red(NamedTuple):
    """A red case: its files, whether it is an op alone, and how many taps were compared."""

    case: str
    golden: str
    candidate: str
    alone: bool
    compared: int


def red_of(verdicts: Verdicts) -> Red:
    """What it takes to diagnose a case that was judged."""
    return Red(verdicts.case.name, verdicts.golden, verdicts.candidate, verdicts.case.mode == pb.OP, verdicts.compared)


def diagnose_folder(
    folder: Folder,
    progress: Callable[[str], None] = lambda _: None,
    *,
    partial: bool = False,
    work: float = ENOUGH,
    whole: float = math.inf,
    deadline: float = math.inf,
    count: Callable[[int, int], None] = lambda done, total: None,
) -> FolderDiagnosis:
    """Diagnose every red case and put equal mistakes together; the bounds are those of `diagnose_cases`."""
    red = [red_of(verdicts) for verdicts in folder.red]
    mistakes, unexplained, notes = diagnose_cases(
        red, progress, partial=partial, work=work, whole=whole, deadline=deadline, count=count
    )
    return FolderDiagnosis(folder, mistakes, unexplained, notes)


def diagnose_cases(
    red: Sequence[Red],
    progress: Callable[[str], None] = lambda _: None,
    *,
    partial: bool = False,
    work: float = ENOUGH,
    whole: float = math.inf,
    deadline: float = math.inf,
    count: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[Mistake], list[Apart], list[Note]]:
    """The mistakes behind red cases, what stands apart, and notes; those are diagnosed first that show most taps.

    Each case is diagnosed as it would be by itself. Where its search ended before it named a mistake, those that the
    cases before it have are tried. `work`: evaluated elements of the search in a case, as of `diagnose`; `whole`: of
    all cases: behind it none is begun, the first apart, and those that are left stand apart. So they do behind
    `deadline`, a moment of the monotonic clock in seconds. `count` gets how many of how many cases are done.
    """
    signs: list[Sign] = []
    known: Counter[str] = Counter()
    for number, red_case in enumerate(
        sorted(red, key=lambda red_case: (not red_case.alone, -red_case.compared, red_case.case))
    ):
        count(number, len(red))
        if number and (whole <= 0 or monotonic() >= deadline):
            why = "--budget was over before" if whole > 0 else "the cases before took what is searched in all of them"
            signs.append(Sign(red_case.case, "", otherwise=f"not diagnosed: {why}; next: diagnose it alone"))
            continue
        named = lambda text, name=red_case.case: progress(f"{name}: {text}")  # noqa: E731
        try:
            case_signs, spent = _signs(red_case, named, known, partial, min(work, whole), deadline)
            whole -= spent
        except ParityError as error:
            case_signs = [
                Sign(red_case.case, "", otherwise=f"cannot be diagnosed: {error.rule}; next: {error.next_step}")
            ]
        except ModuleNotFoundError as error:  # tokenizers are diagnosed by Hugging Face's own parts
            case_signs = [
                Sign(red_case.case, "", otherwise=f"cannot be diagnosed here without the package {error.name}")
            ]
        known.update(sorted({way.name for sign in case_signs for way in sign.ways}))
        signs += case_signs
    order = {red_case.case: number for number, red_case in enumerate(red)}
    signs.sort(key=lambda sign: order[sign.case])
    notes = _notes((sign.note, sign.case) for sign in signs if sign.note)
    return list(_mistakes(signs)), list(_unexplained(signs)), notes


def _signs(
    red: Red, progress: Callable[[str], None], known: Counter[str], partial: bool, work: float, deadline: float
) -> tuple[list[Sign], int]:
    """What a case shows, and the counted work of finding it."""
    golden, candidate = (read(Path(path), digests=True) for path in (red.golden, red.candidate))
    if golden.case.mode == pb.TOKENIZATION:
        from qwen3_parity.diagnosis.text import diagnose_tokenization, directory_of

        directory = directory_of(golden, None)
        texts = diagnose_tokenization(golden, candidate, directory, progress, partial=partial)
        return list(_of_texts(texts, red.case)), 0
    weights = weights_of(golden, checkpoints_of(Path(red.golden)))
    search = with_first(diagnose, golden, candidate, weights, progress, partial=partial, work=work, deadline=deadline)
    diagnosis = search()
    spent, names = diagnosis.work, sorted(known, key=lambda name: (-known[name], name))[:_NAMED]
    if names and any(fault.stopped and not fault.is_known for fault in diagnosis.faults):
        again = search(known=names)
        both = zip(diagnosis.faults, again.faults, strict=True)
        diagnosis = replace(
            diagnosis, faults=[late if late.is_known and not early.is_known else early for early, late in both]
        )
        spent += again.work
    return list(_of_network(diagnosis, red.case)), spent


def _of_texts(diagnosis: TokenDiagnosis, case: str) -> Iterator[Sign]:
    for fault in diagnosis.faults:
        place = f"tokenizer.{fault.stage}"
        whole = [explanation for explanation in fault.explanations if explanation.whole == explanation.of]
        ways = [
            Way(explanation.name, explanation.says, explanation.fix, place)
            for explanation in whole
            if explanation.seen == whole[0].seen
        ]
        partly = [explanation for explanation in fault.explanations if explanation.whole < explanation.of]
        findings = [
            f"{explanation.name}: {explanation.says}, in {explanation.whole} of {explanation.of} texts"
            for explanation in partly
        ]
        yield Sign(case, place, ways, f"no known mistake gives these values at {place}", findings)
    if not diagnosis.faults:
        yield _without_fault(diagnosis.verdicts)


def _of_network(diagnosis: Diagnosis, case: str) -> Iterator[Sign]:
    for fault in diagnosis.faults:
        yield from _of_fault(fault, case)
    for parameter in diagnosis.parameters:
        yield Sign(case, parameter.name, otherwise=f"parameter {parameter.name} {parameter.says}")
    for misplaced in diagnosis.misplaced:
        says = "recorded at another place, no bug: record it where its name says, or leave it out"
        yield Sign(case, misplaced.place, otherwise=f"{_open(misplaced.place)}: {says}")
    if not (diagnosis.faults or diagnosis.parameters or diagnosis.misplaced):
        meaning = "; ".join(diagnosis.meaning)
        yield Sign(case, "", otherwise=meaning) if meaning else _without_fault(diagnosis.verdicts)
    flips = [flip for flip in diagnosis.flips if flip.near_tie or not diagnosis.faults][:_FLIPS]
    beside = [*flips, *([] if diagnosis.angles is None else [diagnosis.angles]), *diagnosis.casts, *diagnosis.failures]
    yield from (Sign(case, "", note=str(text)) for text in beside)


def _of_fault(fault: Explained, case: str) -> Iterator[Sign]:
    """What explains a place: mistakes that explain the same taps are one sign, those behind the rest another."""
    place = _open(fault.fault.place)
    findings = [f"{finding.name}: {finding.says}" for finding in fault.findings]
    rounds: dict[int, list[Way]] = {}
    for explanation in fault.explanations:
        rounds.setdefault(explanation.of, []).append(
            Way(
                explanation.name,
                explanation.says,
                explanation.fix,
                _open(explanation.place),
                explanation.rank,
                explanation.fitted,
            )
        )
    origin = str(fault.origin or "")
    signs = [Sign(case, place, ways, origin=origin) for ways in rounds.values()]
    if not signs or fault.left:
        numbers = "all" if signs else "these"
        signs.append(
            Sign(case, place, otherwise=f"no known mistake reproduces {numbers} numbers of {place}", origin=origin)
        )
    signs[0] = signs[0]._replace(findings=findings, record_next=fault.record)
    yield from signs


def _open(place: str) -> str:
    return place.replace("{layer}", "*")


def _without_fault(verdicts: Verdicts) -> Sign:
    """A red case whose ops are right alone: its first problem, or what it lacks."""
    problems = [problem.rule for problem in verdicts.problems]
    lacks = f"results were not delivered: {', '.join(verdicts.no_results)}" if verdicts.no_results else verdicts.word
    return Sign(verdicts.case.name, "", otherwise=problems[0] if problems else lacks)


def _mistakes(signs: Sequence[Sign]) -> Iterator[Mistake]:
    """The name that explains most signs with all of them, then the one that explains most of the rest.

    What is fitted to numbers explains many, and comes after everything that is not. Of names that explain as many that
    comes first which the cases' own diagnoses have first.
    """
    left = [sign for sign in signs if sign.ways]
    while left:
        name = _behind_most(left)
        yield _mistake(name, [sign for sign in left if name in _names(sign)])
        left = [sign for sign in left if name not in _names(sign)]


def _names(sign: Sign) -> dict[str, None]:
    return dict.fromkeys(way.name for way in sign.ways)


def _behind_most(signs: Sequence[Sign]) -> str:
    ranks = {way.name: (way.fitted, way.rank) for sign in signs for way in sign.ways}
    counts = Counter(name for sign in signs for name in _names(sign))
    first = Counter(sign.ways[0].name for sign in signs)
    return min(counts, key=lambda name: (ranks[name][0], -counts[name], ranks[name], -first[name], name))


def _mistake(name: str, signs: Sequence[Sign]) -> Mistake:
    """A mistake that explains all of these signs."""
    ways = [way for sign in signs for way in sign.ways if way.name == name]
    always = set.intersection(*(set(_names(sign)) for sign in signs))
    others = [(way.name, sign.case) for sign in signs for way in sign.ways if way.name not in always]
    places = Counter(place for way in ways for place in way.place.split(", "))
    return Mistake(
        name,
        list(dict.fromkeys(way.says for way in ways)),
        ways[0].fix,
        [place for place, _ in places.most_common()],
        list(dict.fromkeys(sign.case for sign in signs)),
        sorted(always - {name}),
        _notes(others),
        *_beside(signs),
    )


def _unexplained(signs: Sequence[Sign]) -> Iterator[Apart]:
    reasons: dict[str, list[Sign]] = {}
    for sign in signs:
        if not sign.ways and sign.otherwise:
            reasons.setdefault(sign.otherwise, []).append(sign)
    unexplained = [
        Apart(
            reason,
            list(dict.fromkeys(sign.case for sign in those)),
            *_beside(those),
        )
        for reason, those in reasons.items()
    ]
    yield from sorted(unexplained, key=lambda group: (-len(group.cases), group.reason))


def _beside(signs: Sequence[Sign]) -> tuple[list[Note], list[Note], list[str]]:
    """What the numbers of these places say, the taps that would tell more, and the candidate's own lines."""
    findings = _notes((text, sign.case) for sign in signs for text in sign.findings)
    record_next = _notes((sign.record_next, sign.case) for sign in signs if sign.record_next)
    return findings, record_next, list(dict.fromkeys(sign.origin for sign in signs if sign.origin))


def _notes(lines: Iterable[tuple[str, str]]) -> list[Note]:
    """Lines with their cases, those that stand in most cases first; equal ones in the order of the diagnoses."""
    cases: dict[str, dict[str, None]] = {}
    for text, case in lines:
        cases.setdefault(text, {})[case] = None
    return [Note(text, list(those)) for text, those in sorted(cases.items(), key=lambda item: -len(item[1]))]
