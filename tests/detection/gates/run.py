"""A bug, or an honest variation, run in float32 and in bfloat16: which gates let it pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from detection.gates.common import GATES, Outputs, Pair
from detection.honest.run import VARIATIONS
from detection.honest.variation import Variation
from detection.mutants import Mutant
from detection.mutants.isolated import golden_of, record_mutant
from qwen3_golden import Array, ParityError, Recording, Tensor, pb, place, read
from qwen3_golden.dtypes import to_float32
from qwen3_parity.check import check
from qwen3_parity.judge.scope import Scope
from qwen3_parity.recording.ours.network import factory
from qwen3_parity.recording.record import record

OURS = "this judge"
HONEST_ON = ("decoder/ragged_decode", "encdec/ragged")
"""The cases of honest runs: those that most bugs are seeded in."""
_IN_BFLOAT16 = {"decoder/ragged_decode": "llama/bfloat16", "encdec/ragged": "encdec/bfloat16"}
_LAYERS = "*.layers.*.output"
Write = Callable[[Recording, Path, torch.dtype], None]
"""Records a golden's case in a dtype, to a file."""


@dataclass(frozen=True)
class Row:
    """A run and the gates that let it pass; `honest` or with a bug. `failure`: what stopped it, then nothing passes."""

    name: str
    case: str
    honest: bool
    passes: tuple[str, ...] = ()
    failure: str = ""


def has_outputs(golden: Recording) -> bool:
    """Whether a golden is a float32 run that shows what gates look at: outputs of layers, and logits."""
    names = {item.info.name for item in golden}
    layered = any(fnmatchcase(name, _LAYERS) for name in names)
    return golden.run.arithmetic == pb.ARITHMETIC_F32 and "logits" in names and layered


def of_bug(mutant: Mutant) -> Row:
    """A bug on its first case."""

    def write(golden: Recording, path: Path, dtype: torch.dtype) -> None:
        record_mutant(mutant, golden, path, dtype)

    return _row(mutant.name, mutant.cases[0], write, honest=False)


def of_variation(item: tuple[Variation, str]) -> Row:
    """An honest variation on a case."""
    variation, case = item

    def write(golden: Recording, path: Path, dtype: torch.dtype) -> None:
        record(golden, path, variation.build(dtype))

    return _row(variation.name, case, write, honest=True)


def variations() -> Iterator[tuple[Variation, str]]:
    """Every variation that is fast, and the same network in bfloat16, on each case that it applies to."""
    for case in HONEST_ON:
        both = [golden_of(name) for name in (case, _IN_BFLOAT16[case])]
        for variation in VARIATIONS:
            if not (variation.slow or variation.environment) and all(map(variation.applies, both)):
                yield variation, case


def _row(name: str, case: str, write: Write, *, honest: bool) -> Row:
    torch.set_num_threads(1)
    golden = golden_of(case)
    row = partial(Row, name, case, honest)
    with TemporaryDirectory() as folder:
        path, half = Path(folder) / "float32.pb", Path(folder) / "bfloat16.pb"
        try:
            write(golden, path, torch.float32)
            write(golden, half, torch.bfloat16)
        except ParityError as error:
            return row(failure=f"{error.rule}: {error.got}")
        candidate = read(path, digests=True)
        ours = () if check(golden, candidate).exit_code else (OURS,)
        run = outputs(golden, candidate, read(half))
    with np.errstate(all="ignore"):  # what is not finite passes no gate
        return row((*(gate for gate, passes in GATES.items() if passes(run)), *ours))


def outputs(golden: Recording, candidate: Recording, half: Recording) -> Outputs:
    """What gates look at in a candidate's float32 run and, `half`, in its bfloat16 run."""
    logits = _logits(golden, candidate)
    names = [item for item in golden if fnmatchcase(item.info.name, _LAYERS)]
    layers = [_pair(golden, candidate, item) for item in names]
    return Outputs(layers, logits, _distance(_logits(golden, half)) / _plain(golden.case.name))


@cache
def _plain(case: str) -> float:
    """How far our implementation in bfloat16 is from a case's logits; in float32 it is the reference bit for bit."""
    golden = golden_of(case)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plain.pb"
        record(golden, path, factory("eager", torch.bfloat16))
        return _distance(_logits(golden, read(path)))


def _distance(pair: Pair) -> float:
    return float(np.linalg.norm(pair[0] - pair[1]))


def _logits(golden: Recording, candidate: Recording) -> Pair:
    pairs = [_pair(golden, candidate, item) for item in golden if item.info.name == "logits"]
    return np.concatenate([actual for actual, _ in pairs]), np.concatenate([expected for _, expected in pairs])


def _pair(golden: Recording, candidate: Recording, item: Tensor) -> Pair:
    """Both sides of a tap at the positions that are judged."""
    judged = Scope(golden).judged(item, place(item.info.name, golden.case.config.num_hidden_layers))
    rows = np.broadcast_to(True if judged is None else judged, item.array.shape)[..., 0]
    return _wide(candidate[item.info.name, item.info.step])[rows], _wide(item)[rows]


def _wide(item: Tensor) -> Array:
    array = to_float32(item.array) if item.info.dtype == pb.BF16 else item.array
    return array.astype(np.float64)
