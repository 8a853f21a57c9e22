"""GOLDEN FOLDER of the judging verbs: every recording of the folder by that golden."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from qwen3_golden import Array, Recording, read
from qwen3_golden.whole import write_whole
from qwen3_parity.commands._candidates import Checkpoint
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.folder.by_golden import judge_by_golden
from qwen3_parity.judge.exchanged import refuse_no_golden
from qwen3_parity.judge.golden_path import golden_path
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.report.output import Output

Answer = Callable[[Recording, Recording, Mapping[str, Array] | None], Verdicts | Diagnosis]
"""What is said of a golden and a candidate, with the case's parameters where they are at hand."""


def judge_folder(
    files: Sequence[Path], checkpoint: Checkpoint, output: Output, answer: Answer, junit: Path | None = None
) -> NoReturn:
    """Judge each recording of the folder by the golden before it, and leave with the worst exit code."""
    from qwen3_parity.checkpoints.weights import weights_at_hand
    from qwen3_parity.report import by_golden as pages

    golden = read(golden_path(str(files[0])), digests=True)
    refuse_no_golden(golden, golden)
    with output.progress("judging", "recordings") as update:
        weights = weights_at_hand(golden, checkpoint.root, checkpoint.directory(golden.case))
        judged = judge_by_golden(golden, files[1], lambda candidate: answer(golden, candidate, weights), update.count)
    if junit:
        write_whole(junit, pages.junit(judged))
    output.finish(
        judged.exit_code,
        pages.closing(judged),
        lambda: pages.to_json(judged, output.command, checkpoint.model),
        lambda: [pages.terminal(judged, every=output.verbose)],
    )
