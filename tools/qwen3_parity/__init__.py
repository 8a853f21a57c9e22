"""The judge: compares recordings tap by tap, within budgets, and says what is wrong. Files in, verdicts out.

case = qwen3_parity.golden("decoder/plain")
with qwen3_parity.record(model, case) as recording:
    model(**case.inputs)
print(qwen3_parity.diagnose(case, recording))
"""

from __future__ import annotations

import os
import sys

if sys.argv[0] == "-m" and sys.orig_argv[-len(sys.argv)].endswith(__name__) and sys.path[0] == os.getcwd():  # noqa: PTH109
    del sys.path[0]  # `python -m qwen3_parity` imports nothing of the folder that it runs in, which may be a judged one

from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qwen3_parity.blame import OpVerdict, replay
    from qwen3_parity.check import check
    from qwen3_parity.diagnosis import Diagnosis
    from qwen3_parity.judge.compare import Metrics, compare
    from qwen3_parity.judge.not_parity import NotParityError
    from qwen3_parity.judge.verdict import Problem, Verdict, Verdicts
    from qwen3_parity.recording.assert_parity import assert_parity
    from qwen3_parity.recording.case import Case, golden
    from qwen3_parity.recording.names import Names
    from qwen3_parity.recording.recorder import Recorder

__all__ = [
    "Case",
    "Metrics",
    "NotParityError",
    "OpVerdict",
    "Problem",
    "Recorder",
    "Verdict",
    "Verdicts",
    "assert_parity",
    "check",
    "compare",
    "diagnose",
    "golden",
    "record",
    "replay",
]
_HOMES = {
    "blame": ("OpVerdict", "replay"),
    "check": ("check",),
    "judge.compare": ("Metrics", "compare"),
    "judge.not_parity": ("NotParityError",),
    "judge.verdict": ("Problem", "Verdict", "Verdicts"),
    "recording.assert_parity": ("assert_parity",),
    "recording.case": ("Case", "golden"),
    "recording.recorder": ("Recorder",),
}
"""Imported when they are asked for: every run of pytest that finds the plugin imports this package."""


class _Face(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        """An import of `qwen3_parity.check` binds the module here, where the name is the function's."""
        super().__setattr__(name, value.check if name == "check" and isinstance(value, ModuleType) else value)


sys.modules[__name__].__class__ = _Face


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def record(
    model: Any,
    case: Case | str | Path,
    names: Names | None = None,
    path: Path | None = None,
    *,
    taps: Sequence[str] = (),
) -> AbstractContextManager[Recorder]:
    """Record a torch model on a golden's case while it runs inside the `with`; without a model (None), tap by tap.

    `names` maps the modules that are not called as Hugging Face's are to their taps, see `recording.names`. The file is
    `path`, or build/parity/CASE.pb, written when the `with` ends without an exception. `taps` are globs over taps, or
    sets of them ("layer", "logits"), none for all; of a compiled module nothing inside is recorded. Raises
    `ParityError` for a model of which no module matches, for shapes that are no tap's, and for a case that was not run
    once from end to end.
    """
    from qwen3_parity.recording.case import golden

    if model is None:
        from qwen3_parity.recording.recorder import recorder

        return recorder(golden(case), path)
    from qwen3_parity.recording.tap_sets import globs_of
    from qwen3_parity.recording.wired import record_module

    chosen = golden(case)
    globs = globs_of(taps, chosen.golden.case)
    context: AbstractContextManager[Recorder] = record_module(model, chosen, names, path, globs)
    return context


def diagnose(
    golden: Case | str | PathLike[str],
    candidate: str | PathLike[str],
    *,
    model: Path | None = None,
    partial: bool = False,
) -> Diagnosis:
    """Which ops of a recording are wrong on their own inputs, and what the mistake is.

    `golden` is a case, its name ("decoder/plain") or a file. `model` is the checkpoint of a captured case. `partial`:
    the results need not be there. Raises `ParityError` for what cannot be read or does not belong together.
    """
    from qwen3_golden import GOLDEN_ROOT, read
    from qwen3_parity.checkpoints.weights import weights_of
    from qwen3_parity.diagnosis import diagnose as find
    from qwen3_parity.judge.golden_path import golden_path

    expected, actual = (read(Path(file), digests=True) for file in (golden_path(fspath(golden)), candidate))
    return find(expected, actual, weights_of(expected, GOLDEN_ROOT / "checkpoints", model), partial=partial)
