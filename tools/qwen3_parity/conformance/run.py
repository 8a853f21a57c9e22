"""A port asked for every case, each answer put into a folder, and the folder judged."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from qwen3_golden import ParityError, pb, read
from qwen3_golden.errors import printable
from qwen3_golden.whole import write_whole
from qwen3_parity.conformance.last_words import telling
from qwen3_parity.conformance.port import Limits, NoAnswerError, Port
from qwen3_parity.conformance.requests import request_for
from qwen3_parity.folder.check import Folder, check_folder
from qwen3_parity.judge.candidates import files_of, golden_names
from qwen3_parity.judge.verdict import Verdicts

_SILENT = 5
"""Answers that may be missing one after the other before a port is asked no more."""
_LINE = 300


GOLDEN, CHECKPOINT, ANSWER = "golden.pb", "checkpoint", "answer.pb"
"""The files of a fresh case in its folder."""
KINDS: Mapping[str, Collection[int]] = {
    "ops": (pb.OP,),
    "causal": (pb.CAUSAL,),
    "cache": (pb.CAUSAL,),
    "encoder": (pb.ENCODER,),
    "encoder-decoder": (pb.ENCODER_DECODER,),
}
"""What is drawn of fresh cases for a level."""


@dataclass
class Answers:
    """What a port gave: `failed` says of a case what came in place of an answer, `unsupported` what it does not have.

    `remarks` are what it did beside answering.
    """

    failed: dict[str, str] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Conformance:
    """A run: the answers, the folder that they came to (None where none can be judged), and what failed, by case.

    `cases` are those to ask for. `stopped` is what interrupted it: the cases behind that are `not_judged`.
    """

    answers: Answers
    folder: Folder | None
    failed: Mapping[str, str]
    cases: Sequence[str] = ()
    not_judged: Sequence[str] = ()
    stopped: BaseException | None = None

    @property
    def goes_on(self) -> bool:
        """Whether fresh cases may follow."""
        return self.folder is not None and self.stopped is None


@dataclass(frozen=True)
class Failure:
    """A fresh case that fails, with what is said of it, and the folder of its golden, checkpoint and answer."""

    name: str
    message: str
    description: str
    folder: Path

    @property
    def golden(self) -> Path:
        """The golden's file."""
        return self.folder / GOLDEN

    @property
    def checkpoint(self) -> Path | None:
        """Its checkpoint, None for an op alone, which brings its weights."""
        path = self.folder / CHECKPOINT
        return path if path.is_dir() else None

    @property
    def answer(self) -> Path | None:
        """The port's recording, None where it gave none that can be read."""
        path = self.folder / ANSWER
        return path if path.is_file() else None


@dataclass
class Fresh:
    """A run of fresh cases: how many were judged, the worst share of a budget among those that passed, what was not
    supported, the first that failed as it was drawn, and the `failure` that it was made small to; `against` is where
    their truth comes from, `stopped` what interrupted it."""

    seed: int
    judged: int = 0
    worst: float = 0.0
    unsupported: Counter[str] = field(default_factory=Counter)
    drawn: Failure | None = None
    failure: Failure | None = None
    remarks: list[str] = field(default_factory=list)
    against: str = "the specification"
    stopped: BaseException | None = None


def conformance(
    command: Sequence[str],
    cases: Sequence[str],
    out: Path,
    *,
    goldens: Mapping[str, Path] | None = None,
    limits: Limits,
    jobs: int = 1,
    required: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    count: Callable[[int, int], None] = lambda done, total: None,
) -> Conformance:
    """Ask a port for `cases`, in `jobs` processes side by side, and judge its answers, which are put into `out`.

    `goldens` are files by the names of their cases, the committed ones by default. `progress` gets the case that is
    asked for, `count` how many of how many were.
    A process that breaks off, hangs or answers wrongly is ended, and the next case is asked of a new one. `required`:
    what is not supported fails. An interrupt is kept, and what was answered is judged. Raises
    `ParityError` when the port cannot be started, or `out` holds recordings.
    """
    _refuse_recordings(out)
    goldens, answers, asked = goldens or golden_names(), Answers(), itertools.count()

    def begun(name: str) -> None:
        progress(f"asking {name}")
        count(next(asked), len(cases))

    def ask(names: Iterable[str]) -> None:
        _ask_all(command, names, goldens, out, answers, limits, begun)

    stops = _interrupted(ask, cases, jobs)
    silent = {*answers.failed, *answers.unsupported}
    answered = [name for name in cases if name not in silent and (not stops or (out / f"{name}.pb").is_file())]
    answer_paths = {out / f"{name}.pb" for name in answered}
    answers.remarks += [
        f"{path}: put there by the port, and no answer" for path in sorted({*out.rglob("*.pb")} - answer_paths)
    ]
    progress("judging")
    folder, failed, judged = None, dict(answers.failed), list[str]()
    if answered:
        folder = check_folder(out, answered, goldens=goldens, count=count, interrupted=stops.append)
        judged = [verdicts.case.name for verdicts in folder.results] if stops else answered
        failed |= _judged_red(folder, judged, out)
    not_judged = [name for name in cases if name not in silent and name not in judged]
    if required:
        failed |= {name: f"unsupported: {text}" for name, text in answers.unsupported.items()}
    return Conformance(
        answers,
        folder,
        {name: failed[name] for name in cases if name in failed},
        cases,
        not_judged,
        next(iter(stops), None),
    )


def _judged_red(folder: Folder, answered: Sequence[str], out: Path) -> dict[str, str]:
    """What is said of each answer that is no parity, or was refused."""
    judged = {verdicts.case.name for verdicts in folder.results}
    refused = _refused([name for name in answered if name not in judged], folder.refused, out)
    return {verdicts.case.name: why(verdicts) for verdicts in folder.red} | dict(refused)


def _interrupted(ask: Callable[[Iterable[str]], None], cases: Sequence[str], jobs: int) -> list[BaseException]:
    """Ask, and what interrupted that, if anything did."""
    try:
        _side_by_side(ask, cases, jobs)
    except BaseException as error:
        if isinstance(error, Exception):
            raise
        return [error]
    return []


def _refuse_recordings(out: Path) -> None:
    files, refused = files_of(out) if out.is_dir() else ([], [])
    if there := [*files, *(error.where for error in refused)]:
        raise ParityError(
            out,
            "the folder for answers holds recordings",
            expected="an empty folder, or none",
            got=there[0],
            next_step="give another one with --out",
        )


def _side_by_side(ask: Callable[[Iterable[str]], None], cases: Sequence[str], jobs: int) -> None:
    """Ask for a part of the cases in each of so many threads; after an interrupt nobody is asked any more."""
    stop = Event()

    def until_stopped(names: Sequence[str]) -> None:
        try:
            ask(itertools.takewhile(lambda _: not stop.is_set(), names))
        except BaseException:
            stop.set()
            raise

    if jobs == 1:
        until_stopped(cases)
        return
    with ThreadPoolExecutor(jobs) as pool:
        try:
            list(pool.map(until_stopped, [cases[job::jobs] for job in range(min(jobs, len(cases)))]))
        finally:
            stop.set()


def _refused(names: Sequence[str], errors: Sequence[ParityError], out: Path) -> Iterator[tuple[str, str]]:
    """What is said of each case whose answer in `out` was refused; what the port put beside them may be, too."""
    elsewhere = (error for error in errors if not error.where.startswith(str(out)))
    for name in names:
        here = (error for error in errors if error.where.startswith(str(out / f"{name}.pb")))
        cause = next(here, None) or next(elsewhere, None)
        yield name, f"refused: {cause.rule if cause else 'another recording of its case lies beside it'}"


def why(verdicts: Verdicts) -> str:
    """The verdict on a case that fails, with its first problem, in a line."""
    first = next(iter(verdicts.problems), None)
    return verdicts.word if first is None else f"{verdicts.word}: {first.where}: {first.rule}"


def _ask_all(
    command: Sequence[str],
    names: Iterable[str],
    goldens: Mapping[str, Path],
    out: Path,
    answers: Answers,
    limits: Limits,
    progress: Callable[[str], None],
) -> None:
    silent = 0
    with Port(command, limits) as port:
        for number, name in enumerate(names, 1):
            if silent == _SILENT:
                answers.failed[name] = f"not asked: {_SILENT} cases in a row had no answer in time"
                continue
            progress(name)
            request = request_for(name, goldens)
            request.id = number
            try:
                take(name, port.ask(request, name), out / f"{name}.pb", answers)
                silent = 0
            except NoAnswerError as error:
                answers.failed[name] = str(error)
                silent = silent + 1 if error.late else 0
    answers.remarks += port.remarks


def take(name: str, answer: pb.ConformanceAnswer, path: Path, answers: Answers) -> None:
    """Put an answer where it belongs: a recording at `path`, if it can be read and is of the case."""
    kind = answer.WhichOneof("result")
    if kind == "unsupported":
        answers.unsupported[name] = _line(answer.unsupported)
        return
    if kind != "recording":
        answers.failed[name] = (
            f"error: {_line(telling(answer.error) or answer.error)}"
            if kind
            else "answers with nothing: no recording, no error"
        )
        return
    write_whole(path, answer.recording)
    try:
        case_name = read(path, digests=True).case.name
        problem = "" if case_name == name else f"answers with a recording of {case_name!a}"
    except ParityError as error:
        problem = f"answers with a recording that is refused: {error.rule}"
    if problem:
        path.unlink()
        answers.failed[name] = problem


def _line(text: str) -> str:
    return printable(" ".join(text.split()))[:_LINE]
