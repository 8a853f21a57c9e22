"""One diagnosis for a folder: the mistakes behind its red cases, each with every case that it explains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial as with_first
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from qwen3_golden import ParityError, pb, read
from qwen3_parity.checkpoints.weights import checkpoints_of, weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.mistake import Mistake, Note, notes
from qwen3_parity.diagnosis.precision import declared, lossy_alone
from qwen3_parity.diagnosis.search import ENOUGH
from qwen3_parity.folder.check import Folder
from qwen3_parity.judge.verdict import Verdicts

if TYPE_CHECKING:
    from qwen3_parity.diagnosis.text import TokenDiagnosis

_NAMED = 8
"""Names of mistakes that a case is tried with again where the search for its own ended too early."""
IN_ALL = 8 * ENOUGH
"""Counted work, in evaluated elements, that a run over all goldens spends in the end: a minute of a quiet core."""
_LOSSY = "numbers in few bits, as the recording declares"
_FLIPS = 5
"""Positions of a case that are told where another token is the best."""


class Sign(NamedTuple):
    """What is wrong at one place of a case; `ways` reproduce it equally well, `otherwise` says it where none does.

    `findings` are what the numbers say, `record_next` which tap would tell more, `origin` the candidate's line. With
    neither ways nor otherwise a sign is a `note`: what the case's own diagnosis says beside its places. `lossy`: these
    are numbers in few bits that the candidate declares, and nobody's mistake.
    """

    case: str
    place: str
    ways: Sequence[Explanation] = ()
    otherwise: str = ""
    findings: Sequence[str] = ()
    record_next: str = ""
    origin: str = ""
    note: str = ""
    lossy: bool = False


@dataclass(frozen=True)
class FolderDiagnosis:
    """The folder judged, the mistakes that explain most cases first, and what is said beside them.

    What no named mistake reproduces stands last, as mistakes without a name.
    """

    folder: Folder
    mistakes: Sequence[Mistake]
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
    mistakes, beside = diagnose_cases(
        red, progress, partial=partial, work=work, whole=whole, deadline=deadline, count=count
    )
    return FolderDiagnosis(folder, mistakes, beside)


def diagnose_cases(
    red: Sequence[Red],
    progress: Callable[[str], None] = lambda _: None,
    *,
    partial: bool = False,
    work: float = ENOUGH,
    whole: float = math.inf,
    deadline: float = math.inf,
    count: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[Mistake], tuple[Note, ...]]:
    """The mistakes behind red cases, those without a name last, and notes; cases that show most taps come first.

    Each case is diagnosed as it would be by itself. Where its search ended before it named a mistake, those that the
    cases before it have are tried. `work`: evaluated elements of the search in a case, as of `diagnose`; `whole`: of
    all cases: behind it none is begun but the first, and those that are left have no name. So have those behind
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
    beside = notes((sign.note, sign.case) for sign in signs if sign.note)
    return [*_mistakes(signs), *_unexplained(signs)], beside


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
        whole = [explanation for explanation in fault.explanations if explanation.whole == explanation.of]
        ways = [explanation for explanation in whole if explanation.contradicted == whole[0].contradicted]
        partly = [explanation for explanation in fault.explanations if explanation.whole < explanation.of]
        findings = [
            f"{explanation.name}: {explanation.says}, in {explanation.whole} of {explanation.of} texts"
            for explanation in partly
        ]
        yield Sign(case, fault.place, ways, f"no known mistake gives these values at {fault.place}", findings)
    if not diagnosis.faults:
        yield _without_fault(diagnosis.verdicts)


def _of_network(diagnosis: Diagnosis, case: str) -> Iterator[Sign]:
    lossy = [fault for fault in diagnosis.faults if declared(fault, diagnosis)]
    if lossy:
        alone = bool(lossy_alone(diagnosis))
        says = f"{_LOSSY}: nothing else is otherwise, read KL and ranks of each case, and decide" if alone else _LOSSY
        yield Sign(case, _open(lossy[0].fault.place), otherwise=says, lossy=True)
    for fault in diagnosis.faults:
        if fault not in lossy:
            yield from _of_fault(fault, case)
    for parameter in diagnosis.parameters:
        yield Sign(case, parameter.name, otherwise=f"parameter {parameter.name} {parameter.says}")
    for misplaced in diagnosis.misplaced:
        says = f"{misplaced.short}, no bug: {misplaced.fix}"
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
    rounds: dict[int, list[Explanation]] = {}
    for explanation in fault.explanations:
        rounds.setdefault(explanation.of, []).append(explanation)
    origin = str(fault.origin or "")
    signs = [Sign(case, place, ways, origin=origin) for ways in rounds.values()]
    if not signs or fault.left:
        numbers = "all" if signs else "these"
        otherwise = f"no known mistake reproduces {numbers} numbers of {place}"
        signs.append(Sign(case, place, otherwise=otherwise, origin=origin))
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
    ways = {way.name: way for sign in signs for way in sign.ways}
    counts = Counter(name for sign in signs for name in _names(sign))
    first = Counter(sign.ways[0].name for sign in signs)
    return min(counts, key=lambda name: (ways[name].fitted, -counts[name], ways[name].rank, -first[name], name))


def _mistake(name: str, signs: Sequence[Sign]) -> Mistake:
    """A mistake that explains all of these signs."""
    ways = [way for sign in signs for way in sign.ways if way.name == name]
    always = set.intersection(*(set(_names(sign)) for sign in signs))
    others = [(way.name, sign.case) for sign in signs for way in sign.ways if way.name not in always]
    places = Counter(place for way in ways for place in _open(way.place).split(", "))
    return Mistake(
        name,
        tuple(dict.fromkeys(way.says for way in ways)),
        ways[0].fix,
        tuple(place for place, _ in places.most_common()),
        otherwise=tuple(sorted(always - {name})),
        otherwise_in=notes(others),
        **_beside(signs),
    )


def _unexplained(signs: Sequence[Sign]) -> Iterator[Mistake]:
    """What no named mistake reproduces, by what is known of it."""
    reasons: dict[str, list[Sign]] = {}
    for sign in signs:
        if not sign.ways and sign.otherwise:
            reasons.setdefault(sign.otherwise, []).append(sign)
    unexplained = [Mistake("", (reason,), lossy=those[0].lossy, **_beside(those)) for reason, those in reasons.items()]
    yield from sorted(unexplained, key=lambda mistake: (-len(mistake.cases), mistake.says))


def _beside(signs: Sequence[Sign]) -> dict[str, Any]:
    """The cases of these signs, what their numbers say, the taps that would tell more, and the candidate's lines."""
    return {
        "cases": tuple(dict.fromkeys(sign.case for sign in signs)),
        "findings": notes((text, sign.case) for sign in signs for text in sign.findings),
        "record_next": notes((sign.record_next, sign.case) for sign in signs if sign.record_next),
        "origins": tuple(dict.fromkeys(sign.origin for sign in signs if sign.origin)),
    }
