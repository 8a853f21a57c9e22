"""Every recording of a folder judged by the golden of its case, in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qwen3_golden import ParityError, read
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import checkpoints_of, weights_at_hand
from qwen3_parity.judge.candidates import golden_names, recordings
from qwen3_parity.judge.verdict import Verdicts


@dataclass(frozen=True)
class Folder:
    """What a folder of recordings came to: `results` by case, in the order of the goldens.

    `refused` are recordings that could not be read, that are of no golden's case, or of one that another file has, too;
    `missing` the goldens that no recording is of. Where some cases are `required`, others were not judged: `extra` are
    those that were delivered.
    """

    path: Path
    results: Sequence[Verdicts]
    refused: Sequence[ParityError] = ()
    missing: Sequence[str] = ()
    extra: Sequence[str] = ()
    required: bool = False

    @property
    def red(self) -> list[Verdicts]:
        """The cases that are no parity."""
        return [verdicts for verdicts in self.results if verdicts.exit_code]

    @property
    def exit_code(self) -> int:
        """2 where a recording was refused, 1 for a divergence, for a required case that is missing, and where nothing
        was judged, otherwise 0."""
        if self.refused:
            return 2
        return 1 if self.red or not self.results or (self.required and self.missing) else 0


def check_folder(
    folder: Path,
    required: Sequence[str] = (),
    *,
    partial: bool = False,
    goldens: Mapping[str, Path] | None = None,
    count: Callable[[int, int], None] = lambda done, total: None,
    interrupted: Callable[[BaseException], None] | None = None,
) -> Folder:
    """Judge every recording below `folder`, or those of `required` cases; one that is refused keeps no other from it.

    Each op is judged alone where the case's checkpoint is a committed one, or beside its golden. `partial`: the cases'
    results need not be there. `goldens` are files by case, the committed ones by default. `count` gets how many of how
    many recordings are judged. An interrupt is handed to `interrupted`, where it is given, and what was judged stays.

    Raises `ParityError` when there is no such folder, or no recording in it.
    """
    goldens = goldens or golden_names()
    delivered, refused = recordings(folder, goldens)
    names, results = required or list(goldens), []
    judged = [name for name in names if name in delivered]
    for done, name in enumerate(judged):
        try:
            count(done, len(judged))
            golden = read(goldens[name], digests=True)
            weights = weights_at_hand(golden, checkpoints_of(goldens[name]))
            results.append(check(golden, delivered[name], weights, partial=partial))
        except ParityError as error:
            refused.append(error)
        except BaseException as error:
            if interrupted is None or isinstance(error, Exception):
                raise
            interrupted(error)
            break
    missing = [name for name in names if name not in delivered]
    return Folder(folder, results, refused, missing, [name for name in delivered if name not in names], bool(required))
