"""Running a bug of a loader: a checkpoint is loaded with it, and the verification is asked what is wrong."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from detection.mutants.mutant import REFUSED, Mutant
from detection.mutants.outcome import CaseOutcome
from detection.mutants.patch import Patch
from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_encdec.weights.verification import weight_faults
from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.recording.ours.network import EncoderDecoder

SENTINELS = 7

Load = Callable[..., Qwen3ForSeq2SeqLM]
"""`load(directory, **options)`: what `load_qwen3` does, or a loader of somebody who does it otherwise."""


class Loading(Patch):
    """A checkpoint that is about to be loaded: its files, the loader, its options and the model are open to changes.

    `source` is the checkpoint that the model is verified against, `directory` what the loader reads in its place;
    both are the committed one until `copied` is called.
    """

    def __init__(self, source: Path, folder: Path) -> None:
        super().__init__(lambda: EncoderDecoder(self.load(self.directory, **self.options), "eager"))
        self.source = self.directory = source
        self.load: Load = load_qwen3
        self.options: dict[str, Any] = {"num_sentinel_tokens": SENTINELS}
        self._folder = folder

    def copied(self, name: str = "copy") -> Path:
        """A copy of the checkpoint, to be damaged."""
        return Path(shutil.copytree(self.source, self._folder / name, dirs_exist_ok=True))


def messages(loading: Loading) -> Mapping[str, Sequence[str]]:
    """What is said of a loaded model: check to the messages of its faults, in their order.

    A loader, or a verification, that refuses the checkpoint says so under `REFUSED`.
    """
    try:
        faults = weight_faults(loading.model, loading.source)
    except ValueError as error:
        return {REFUSED: [str(error)]}
    texts: dict[str, list[str]] = {}
    for fault in faults:
        texts.setdefault(fault.check, []).append(f"{fault.name}: {fault.says}")
    return texts


def run_checkpoint(mutant: Mutant, case: str) -> CaseOutcome:
    """The loader's bug on one checkpoint (a folder of golden/), in this process: which checks fail, and their words.

    A check that must fail is named when all of its messages have one of the mutant's parts.
    """
    with TemporaryDirectory() as folder:
        loading = Loading(GOLDEN_ROOT / case, Path(folder))
        try:
            mutant.seed(loading)
            texts = messages(loading)
        except ValueError as error:  # a seed that changes the model loads it
            texts = {REFUSED: [str(error)]}
        except Exception as error:  # a verification must stand whatever model it is given
            return CaseOutcome(case, caught=False, failure=f"{type(error).__name__}: {error}")
        finally:
            loading.undo()
    return CaseOutcome(
        case,
        caught=bool(texts),
        share=math.inf if texts else 0.0,
        blamed=tuple(texts),
        innocents=tuple(check for check in texts if check not in mutant.wrong),
        missed=tuple(sorted(mutant.wrong - texts.keys())) if texts else (),
        diagnoses={check: _explanation(said, mutant.named) for check, said in texts.items()},
    )


def _explanation(said: Sequence[str], parts: frozenset[str]) -> str:
    """The part that the messages have, or the first message that has none."""
    strange = next((message for message in said if not any(part in message for part in parts)), None)
    return strange or next(part for part in sorted(parts) if part in said[0])
