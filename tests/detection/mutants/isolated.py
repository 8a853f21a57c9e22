"""Running mutants, each in a process of its own: what one leaves behind, or where it hangs, touches no other."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import torch

from detection.mutants.judged import Judge, by_replay, short
from detection.mutants.loaders_run import run_checkpoint
from detection.mutants.mutant import Mutant
from detection.mutants.outcome import CaseOutcome, Outcome, nothing
from detection.mutants.patch import Patch
from qwen3_encdec.tokenizer.files import TokenizerFiles
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer
from qwen3_golden import GOLDEN_ROOT, Array, ParityError, Recording, pattern_of, pb, read
from qwen3_parity.check import check_run
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.ours.network import EncoderDecoder, factory, golden_dtype
from qwen3_parity.recording.record import record
from qwen3_parity.recording.text import record_tokenization
from qwen3_parity.text.ours import read_tokenizer, runner_of
from qwen3_parity.text.runner import Runner

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"


def golden_of(case: str) -> Recording:
    """The committed golden of a case."""
    return read(GOLDEN_ROOT / "cases" / f"{case}.pb")


def record_mutant(mutant: Mutant, golden: Recording, path: Path, dtype: torch.dtype | None = None) -> None:
    """Record our implementation with the bug on the golden's case, in the golden's dtype where none is said.

    Raises `ParityError` when it cannot be run.
    """
    if golden.case.mode == pb.TOKENIZATION:
        record_tokenization(golden, path, lambda case, directory: _seeded(mutant, directory))
        return
    plain, patches = factory("eager", dtype or golden_dtype(golden)), list[Patch]()

    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> EncoderDecoder:
        def load() -> EncoderDecoder:
            return cast(EncoderDecoder, plain(case, checkpoints))  # in cases of one op nobody asks for its model

        patches.append(Patch(load))
        mutant.seed(patches[0])
        return patches[0].runner

    try:
        record(golden, path, build, checkpoints=CHECKPOINTS)
    finally:
        for patch in patches:
            patch.undo()


@cache
def _files(directory: Path) -> TokenizerFiles:
    return read_tokenizer(directory).files


def _seeded(mutant: Mutant, directory: Path) -> Runner:
    tokenizer = ByteLevelTokenizer(_files(directory))
    mutant.seed(tokenizer)
    return runner_of(tokenizer)


def run_case(mutant: Mutant, case: str, judge: Judge = by_replay) -> CaseOutcome:
    """The mutant on one case, in this process: recorded to a file, checked, and judged where it is caught.

    A loader's bug is loaded and verified, whatever the judge.
    """
    if mutant.of_weights:
        return run_checkpoint(mutant, case)
    golden = golden_of(case)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.pb"
        try:
            record_mutant(mutant, golden, path)
        except ParityError as error:
            if error.fault != "candidate":
                return CaseOutcome(case, caught=False, failure=str(error))
            missed = tuple(sorted(mutant.wrong)) if mutant.named else ()
            return CaseOutcome(case, caught=True, refused=str(error.got), missed=missed)
        verdicts = check_run(golden, read(path, digests=True))
        if not verdicts.exit_code:
            return CaseOutcome(case, caught=False, share=_share(verdicts))
        if golden.case.mode == pb.OP:  # there is no other op to blame
            return CaseOutcome(case, caught=True, share=_share(verdicts), blamed=(golden.case.op,))
        candidate = read(path)
        try:
            blames = judge(golden, candidate, _weights(candidate))
        except Exception as error:  # caught is caught, whatever the judge can make of it
            return CaseOutcome(case, caught=True, share=_share(verdicts), failure=f"{type(error).__name__}: {error}")
    faults = [frozenset(map(short, accused.places)) for accused in blames]
    there = {short(pattern_of(item.info.name)) for item in golden} | set(golden.run.materialised)
    return CaseOutcome(
        case,
        caught=True,
        share=_share(verdicts),
        blamed=tuple(dict.fromkeys(short(accused.places[0]) for accused in blames)),
        innocents=tuple(
            short(accused.places[0]) for accused, fault in zip(blames, faults, strict=True) if not fault & mutant.wrong
        ),
        missed=tuple(sorted((mutant.wrong & there).difference(*faults))),
        diagnoses={short(accused.places[0]): accused.explanation for accused in blames},
    )


def _weights(candidate: Recording) -> Mapping[str, Array]:
    return {} if candidate.case.mode == pb.TOKENIZATION else weights_of(candidate, CHECKPOINTS)


def _share(verdicts: Verdicts) -> float:
    """The worst share among taps with a budget; infinite when an exact rule catches it, whatever the budgets say."""
    budgeted = [tap for tap in verdicts.taps if not tap.exact]
    if any(tap.share <= 1 and not tap.passed for tap in budgeted):
        return math.inf
    worst = max((tap.share for tap in budgeted), default=0.0)
    return worst if worst > 1 or not verdicts.exit_code else math.inf


def _child(mutant: Mutant, cases: Sequence[str], judge: Judge, sender: Connection) -> None:
    torch.set_num_threads(1)
    try:
        # Where a fork cannot go backward, no bug is the cause.
        torch.zeros((), requires_grad=True).backward()  # type: ignore[no-untyped-call]
        sender.send(nothing(mutant, tuple(run_case(mutant, case, judge) for case in cases)))
    except Exception as error:  # whatever it is, the other mutants go on
        sender.send(nothing(mutant, failure=f"{type(error).__name__}: {error}"))


class _Running:
    """A mutant's process, and when its time is up."""

    def __init__(self, mutant: Mutant, cases: Sequence[str], judge: Judge, timeout: float) -> None:
        context = multiprocessing.get_context("fork")  # what is imported and read stays warm
        self.mutant = mutant
        self.receiver, sender = context.Pipe(duplex=False)
        self.process: ForkProcess = context.Process(target=_child, args=(mutant, cases, judge, sender))
        self.end = time.monotonic() + timeout
        self.process.start()
        sender.close()

    def outcome(self) -> Outcome:
        """What it sent, or why nothing came; the process is gone afterwards."""
        try:
            if not self.receiver.poll():
                return nothing(self.mutant, failure="time limit")
            result = self.receiver.recv()
            assert isinstance(result, Outcome)
            return result
        except EOFError:
            return nothing(self.mutant, failure="the process died")
        finally:
            self.process.kill()
            self.process.join()
            self.receiver.close()


def run_all(
    mutants: Sequence[Mutant],
    *,
    judge: Judge = by_replay,
    cases: Callable[[Mutant], Sequence[str]] = lambda mutant: mutant.cases,
    workers: int = 1,
    timeout: float = 120.0,
) -> Iterator[Outcome]:
    """Every mutant's outcome as it comes, `workers` processes at a time, each `timeout` seconds at most."""
    waiting, running = list(reversed(mutants)), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                mutant = waiting.pop()
                running.append(_Running(mutant, cases(mutant), judge, timeout))
            wait(
                [process.receiver for process in running],
                max(0.0, min(process.end for process in running) - time.monotonic()),
            )
            done = [process for process in running if process.receiver.poll() or time.monotonic() >= process.end]
            running = [process for process in running if process not in done]
            yield from (process.outcome() for process in done)
    finally:  # also when the caller stops early
        for process in running:
            process.outcome()


def run_mutant(
    mutant: Mutant, cases: Sequence[str] | None = None, judge: Judge = by_replay, timeout: float = 120.0
) -> Outcome:
    """One mutant in a process of its own, on its own cases when none are given."""
    return next(run_all([mutant], judge=judge, cases=lambda seeded: cases or seeded.cases, timeout=timeout))
