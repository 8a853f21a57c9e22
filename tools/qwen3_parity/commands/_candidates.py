"""What the judging verbs take: [GOLDEN] CANDIDATE or a FOLDER of them, and where the checkpoint of the case is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity.commands import FILE, Decorator
from qwen3_parity.judge.exchanged import refuse_no_golden
from qwen3_parity.judge.golden_path import golden_of, golden_path
from qwen3_parity.judge.match import refuse_weights

METAVAR = "[GOLDEN] CANDIDATE | FOLDER"


def candidates_argument(*, required: bool = True) -> Decorator:
    """One or two files, GOLDEN first, or a folder; which the command gets as `files`."""
    return click.argument("files", nargs=-1, required=required, type=FILE, metavar=METAVAR)


@dataclass(frozen=True)
class Checkpoint:
    """--model, as it was typed, and --checkpoints."""

    model: str | None = None
    root: Path = GOLDEN_ROOT / "checkpoints"

    def directory(self, case: pb.Case) -> Path | None:
        """The directory of --model; one of the hub is fetched, of a case of texts the tokenizer alone."""
        from qwen3_parity.recording.request import TOKENIZER_FILES, local_checkpoint

        if self.model is None:
            return None
        return local_checkpoint(self.model, TOKENIZER_FILES if case.mode == pb.TOKENIZATION else ())


def folder_of(files: Sequence[Path], checkpoint: Checkpoint) -> Path | None:
    """The folder that is to be judged, None for one candidate; raises `UsageError` for what does not go together."""
    if len(files) > 2:
        raise click.UsageError("give one candidate, or a golden and a candidate, or a folder")
    if len(files) != 1 or not files[0].is_dir():
        return None
    if checkpoint != Checkpoint():
        raise click.UsageError("--model and --checkpoints are for one candidate, and this is a folder")
    return files[0]


def by_golden(files: Sequence[Path]) -> bool:
    """Whether a folder of recordings is to be judged by the golden before it."""
    return len(files) == 2 and files[1].is_dir()


def both(files: Sequence[Path]) -> tuple[Recording, Recording]:
    """The golden, which is found by the case's name where it is left out, and the candidate."""
    if by_golden(files):
        raise click.UsageError("a folder is judged by a golden with check and diagnose; give one of its recordings")
    candidate = read(files[-1], digests=True)
    golden = read(golden_path(str(files[0])) if len(files) == 2 else golden_of(candidate), digests=True)
    refuse_weights(candidate, golden)
    refuse_no_golden(golden, candidate)
    return golden, candidate
