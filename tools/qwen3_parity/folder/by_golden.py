"""Every recording of a folder judged by the same golden: engines, precisions or settings of one model side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from qwen3_golden import ParityError, Recording, read, refusals
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.judge.candidates import files_of
from qwen3_parity.judge.verdict import Verdicts

Judge = Callable[[Recording], Verdicts | Diagnosis]
_refused = refusals("give the folder that holds the recordings of this golden's case, *.pb at any depth")


@dataclass(frozen=True)
class Judged:
    """A recording by its path below the folder, its verdicts, and its diagnosis where it was asked for."""

    file: str
    verdicts: Verdicts
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True)
class ByGolden:
    """What the recordings of a folder came to by one golden; `refused` are those that could not be judged by it."""

    path: Path
    golden: str
    results: Sequence[Judged]
    refused: Sequence[ParityError] = ()

    @property
    def red(self) -> list[Judged]:
        """The recordings that are no parity."""
        return [judged for judged in self.results if judged.verdicts.exit_code]

    @property
    def exit_code(self) -> int:
        """The worst of all: 2 where a recording was refused, 1 where any is no parity, otherwise 0."""
        return 2 if self.refused else 1 if self.red or not self.results else 0


def judge_by_golden(
    golden: Recording, folder: Path, judge: Judge, count: Callable[[int, int], None] = lambda done, total: None
) -> ByGolden:
    """Judge every recording below `folder` by a golden, which is passed over where it lies there itself.

    A recording that `judge` refuses, of another case for instance, keeps no other from it. Raises `ParityError` when
    the folder has no recording.
    """
    files, refused = files_of(folder)
    here = Path(golden.source).resolve()
    files = [path for path in files if path.resolve() != here]
    if not (files or refused):
        raise _refused(folder, "there is no recording to judge", "*.pb files, at any depth", "none")
    results = list[Judged]()
    for done, path in enumerate(files):
        count(done, len(files))
        try:
            answer = judge(read(path, digests=True))
        except ParityError as error:
            refused.append(error)
            continue
        verdicts, diagnosis = (answer, None) if isinstance(answer, Verdicts) else (answer.verdicts, answer)
        results.append(Judged(path.relative_to(folder).as_posix(), verdicts, diagnosis))
    return ByGolden(folder, golden.source, results, refused)
