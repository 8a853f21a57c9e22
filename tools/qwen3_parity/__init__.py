"""The judge: compares recordings tap by tap, within budgets, and says what is wrong. Files in, verdicts out.

case = qwen3_parity.golden("decoder/plain")
with qwen3_parity.record(model, case) as recording:
    model(**case.inputs)
print(qwen3_parity.diagnose(case, recording))
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.blame import OpVerdict, replay
from qwen3_parity.check import check
from qwen3_parity.judge.compare import Metrics, compare
from qwen3_parity.judge.verdict import Problem, Verdict, Verdicts
from qwen3_parity.recording.case import Case, golden
from qwen3_parity.recording.names import Names
from qwen3_parity.recording.recorder import Recorder, recorder

if TYPE_CHECKING:
    from qwen3_parity.diagnosis import Diagnosis

__all__ = [
    "Case",
    "Metrics",
    "OpVerdict",
    "Problem",
    "Recorder",
    "Verdict",
    "Verdicts",
    "check",
    "compare",
    "diagnose",
    "golden",
    "record",
    "replay",
]


def record(
    model: Any, case: Case | str | Path, names: Names | None = None, path: Path | None = None
) -> AbstractContextManager[Recorder]:
    """Record a torch model on a golden's case while it runs inside the `with`; without a model (None), tap by tap.

    `names` maps the modules that are not called as Hugging Face's are to their taps, see `recording.names`. The file is
    `path`, or build/parity/CASE.pb, written when the `with` ends without an exception. Raises `ParityError` for a model
    of which no module matches, for shapes that are no tap's, and for a case that was not run once from end to end.
    """
    if model is None:
        return recorder(golden(case), path)
    from qwen3_parity.recording.wired import record_module

    made: AbstractContextManager[Recorder] = record_module(model, golden(case), names, path)
    return made


def diagnose(
    golden: Case | str | PathLike[str],
    candidate: str | PathLike[str],
    *,
    model: Path | None = None,
    partial: bool = False,
) -> Diagnosis:
    """Which ops of a recording are wrong on their own inputs, and what the mistake is.

    `model` is the checkpoint of a captured case. `partial`: the case's results need not be there. Raises `ParityError`
    for what cannot be read or does not belong together.
    """
    from qwen3_parity.checkpoints.weights import weights_of
    from qwen3_parity.diagnosis import diagnose as find

    expected, actual = (read(Path(one), digests=True) for one in (golden, candidate))
    return find(expected, actual, weights_of(expected, GOLDEN_ROOT / "checkpoints", model), partial=partial)
