"""Cases that nobody has run before: drawn from a seed, judged by the specification, the first failure kept as it was
drawn and made small."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy, one_of

from qwen3_golden import ParityError, pb, read
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_at_hand
from qwen3_parity.conformance.drawn import networks
from qwen3_parity.conformance.drawn_ops import single_ops
from qwen3_parity.conformance.port import NoAnswerError
from qwen3_parity.conformance.requests import bare_golden
from qwen3_parity.conformance.run import ANSWER, GOLDEN, KINDS, Answers, Failure, Fresh, take, why

_SMALLER, _LATE = 400, 5
"""Cases that a failing one is made small by, at most; and how many without an answer in time."""
_LACKING = 3
"""Cases of a kind that a port does not support before no more of the kind are drawn."""
Ask = Callable[[pb.ConformanceRequest, str], pb.ConformanceAnswer]


class Drawn(Protocol):
    """A case that can be made: `kind` is what a port may not support."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    def write(self, folder: Path) -> None: ...


class _FailedError(Exception):
    """A case fails: what hypothesis makes small."""


def strategy(levels: Collection[str]) -> SearchStrategy[Drawn] | None:
    """What is drawn for these levels, for all of them where none is named; None where there is nothing to draw."""
    kinds = {mode: None for level in levels or KINDS for mode in KINDS.get(level, ())}
    modes = [mode for mode in kinds if mode != pb.OP]
    strategies: list[SearchStrategy[Drawn]] = [networks(modes)] * bool(modes) + [single_ops()] * (pb.OP in kinds)
    return one_of(strategies) if strategies else None


def fresh(
    ask: Ask,
    cases: SearchStrategy[Drawn],
    number: int,
    count: int,
    save: Path,
    progress: Callable[[str], None] = lambda _: None,
    counted: Callable[[int, int], None] = lambda done, total: None,
) -> Fresh:
    """Ask for `count` cases that are drawn from the seed `number`; the first that fails is put into `save`, with its
    answer, as it was drawn, and once more as the smallest case that fails.

    The same seed draws the same cases from the same code: hypothesis also takes numbers from the sources of modules
    that are loaded and not installed. What a port does not support is not counted. `progress` gets the case that is
    asked for, `counted` how many of how many were judged. An interrupt ends it, and what was judged until then stays.
    """
    run = Fresh(number)
    messages: dict[str, str] = {}
    late, smaller, answered = 0, 0, set[str]()

    def trial(drawn: Drawn) -> None:
        nonlocal late, smaller
        if drawn.name in messages:
            if not any(messages.values()):
                reject()  # a case counts once
        else:
            if any(messages.values()):
                smaller += 1
                if smaller > _SMALLER or late > _LATE:
                    return
            if drawn.kind not in answered and run.unsupported[drawn.kind] >= _LACKING:
                reject()
            progress(drawn.name)
            with TemporaryDirectory() as folder:
                try:
                    message, share = judged(ask, drawn, Path(folder))
                except NoAnswerError as error:
                    message, share = str(error), None
                    late += error.late
                if message and run.drawn is None:
                    run.drawn = _saved_failure(drawn.name, message, Path(folder), save)
            if share is None and not message:
                run.unsupported[drawn.kind] += 1
                reject()
            answered.add(drawn.kind)
            messages[drawn.name] = message
            run.judged += 1
            run.worst = max(run.worst, 0.0 if message else share or 0.0)
            counted(min(run.judged, count), count)
        if messages[drawn.name]:
            raise _FailedError(drawn)

    quiet = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    try:
        counted(0, count)
        seed(number)(quiet(given(cases)(trial)))()
    except _FailedError as failed:
        run.failure = _small(ask, failed.args[0], messages, run.drawn, save)
    except Unsatisfiable:  # nothing that was drawn is supported
        pass
    except BaseException as error:
        if isinstance(error, Exception):
            raise
        run.stopped, run.failure = error, run.drawn
    return run


def _small(ask: Ask, drawn: Drawn, messages: Mapping[str, str], first: Failure | None, save: Path) -> Failure:
    """The smallest case that fails, asked for once more; the `first` itself where none is smaller."""
    if first is not None and first.name == drawn.name:
        return first
    with TemporaryDirectory() as folder:
        with suppress(NoAnswerError):
            judged(ask, drawn, Path(folder))
        return _saved_failure(drawn.name, messages[drawn.name], Path(folder), save)


def _saved_failure(name: str, message: str, source: Path, save: Path) -> Failure:
    """A case that fails, its files taken over into `save`."""
    folder = save / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, symlinks=True)  # a checkpoint that is linked may be large
    return Failure(name, message, read(folder / GOLDEN).case.description, folder)


def judged(ask: Ask, drawn: Drawn, folder: Path) -> tuple[str, float | None]:
    """What is wrong with a port's answer to a case, "" for nothing, and the worst share of a budget in it.

    None and no message: the port does not support it. `folder` gets the case and what came of it. Raises
    `NoAnswerError`.
    """
    drawn.write(folder)
    request = pb.ConformanceRequest(id=1, recording=bare_golden(folder / GOLDEN))
    answers = Answers()
    take(drawn.name, ask(request, drawn.name), folder / ANSWER, answers)
    if answers.unsupported:
        return "", None
    if answers.failed:
        return answers.failed[drawn.name], None
    golden = read(folder / GOLDEN, digests=True)
    try:
        verdicts = check(golden, folder / ANSWER, weights_at_hand(golden, folder))
    except ParityError as error:
        return f"refused: {error.rule}", None
    worst = verdicts.worst
    return why(verdicts) if verdicts.exit_code else "", worst.share if worst else 0.0
