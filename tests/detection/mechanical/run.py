"""Mutants run one by one, each in a process of its own, forked from one that has torch and transformers loaded."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from detection.mechanical.apply import file_of, forget, install, lines_reached, package_folder
from detection.mechanical.judged import Judgement, cases, judge, recorded
from detection.mechanical.sources import FILES, Mutant, mutants
from qwen3_golden import ParityError
from qwen3_parity.check import check_run

TIME_LIMIT = 60.0
"""Seconds that a mutant may take; one that lives through every case takes about 4."""
_MEMORY = 16 << 30
_WARM = [
    *("qwen3_parity.check", "qwen3_parity.recording.ours.network", "qwen3_parity.recording.record"),
    *("transformers.modeling_utils", "transformers.generation.utils"),
]
"""What the server imports before it forks. This package is not installed, so the server would not find it."""
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(_WARM)


@dataclass(frozen=True)
class Unchanged:
    """The implementation as it is: its recordings in `folder`, and by case and module the lines that run.

    Lines that run at import are those of the case "": they count for every case.
    """

    folder: Path
    lines: dict[str, dict[str, set[int]]]

    def reaching(self, mutant: Mutant) -> list[str]:
        """The cases that run the statement which the mutant changes, in the order in which to ask them."""
        span = range(mutant.lines[0], mutant.lines[1] + 1)
        known = [case for case in self.lines if not self.lines[case].get(mutant.module, set()).isdisjoint(span)]
        return [case for case in self.lines if case] if "" in known else known


def all_mutants(only: str = "*") -> list[Mutant]:
    """The mutants of every file of `FILES` whose key or id matches the glob."""
    every = [mutant for name in FILES for mutant in mutants(file_of(name), name)]
    return [mutant for mutant in every if fnmatchcase(mutant.key, only) or fnmatchcase(mutant.id, only)]


@contextmanager
def unchanged(only: Sequence[str] = ()) -> Iterator[Unchanged]:
    """The implementation as it is, recorded once on every case, or on `only` these; gone afterwards.

    Raises `ParityError` when it does not pass: then nothing can be said about a mutant.
    """
    with tempfile.TemporaryDirectory() as folder:
        sent = _in_process(_record_unchanged, (folder, *(only or cases())), limit=10 * TIME_LIMIT)
        answer = json.loads(sent or '"no answer"')
        if isinstance(answer, str):
            raise ParityError(
                "mechanical mutants",
                "the implementation without any change does not pass",
                expected="parity on every case",
                got=answer,
                next_step="qwen3-parity parity",
            )
        lines = {case: {name: set(numbers) for name, numbers in of.items()} for case, of in answer.items()}
        yield Unchanged(Path(folder), lines)


def run(mutant: Mutant, reference: Unchanged) -> Judgement:
    """What the cases say about a mutant."""
    names = reference.reaching(mutant)
    if not names:
        return Judgement("unreached")
    task = (mutant.module, mutant.text, str(reference.folder), *names)
    answer = _in_process(_judge_mutant, task, limit=TIME_LIMIT)
    if answer is None:
        return Judgement("timeout")
    return Judgement(**json.loads(answer)) if answer else Judgement("refused", detail="the process died")


def run_all(chosen: Sequence[Mutant], reference: Unchanged, workers: int = 1) -> Iterator[tuple[Mutant, Judgement]]:
    """The judgements in the order of the mutants."""
    with ThreadPoolExecutor(workers) as pool:
        yield from zip(chosen, pool.map(lambda mutant: run(mutant, reference), chosen), strict=True)


def _in_process(work: Callable[..., None], arguments: tuple[str, ...], limit: float) -> bytes | None:
    """What `work(connection, folder, *arguments)` sends from a fresh process; None after `limit` seconds, empty if it
    died without a word."""
    receiver, sender = _SERVER.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder, receiver:
        process = _SERVER.Process(target=work, args=(sender, folder, *arguments), daemon=True)
        process.start()
        sender.close()
        try:
            return receiver.recv_bytes() if receiver.poll(limit) else None
        except EOFError:
            return b""
        finally:
            process.kill()
            process.join()


def _quietly() -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _record_unchanged(sender: Connection, _folder: str, out: str, *names: str) -> None:
    _quietly()
    forget()
    folder, reached = package_folder(), dict[str, dict[str, list[int]]]()
    with lines_reached(folder) as lines:
        import_module("qwen3_parity.recording.ours.network")
    reached[""] = {name: sorted(numbers) for name, numbers in lines.items()}
    for name in names:
        with lines_reached(folder) as lines:
            [(golden, candidate)] = recorded([name], Path(out))
        if check_run(golden, candidate).exit_code:
            sender.send_bytes(json.dumps(name).encode())
            return
        reached[name] = {module: sorted(numbers) for module, numbers in lines.items()}
    sender.send_bytes(json.dumps(reached).encode())


def _judge_mutant(sender: Connection, folder: str, module: str, text: str, reference: str, *names: str) -> None:
    _quietly()
    install(module, text)
    sender.send_bytes(json.dumps(asdict(judge(names, Path(folder), Path(reference)))).encode())
