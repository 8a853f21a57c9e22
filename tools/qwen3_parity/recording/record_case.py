"""An implementation on one golden, whatever the two are: a network or a tokenizer, ours, a module or a runner."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_parity.checkpoints.graph_weights import directory_of
from qwen3_parity.checkpoints.weights import checkpoint_directories, checkpoints_of, refuse_others
from qwen3_parity.judge.match import refuse_weights
from qwen3_parity.recording import record as recorder
from qwen3_parity.recording.arguments import run
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.factories import factory_of
from qwen3_parity.recording.left_out import LeftOut
from qwen3_parity.recording.tap_sets import globs_of
from qwen3_parity.recording.text import record_tokenization
from qwen3_parity.recording.wired import record_module

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"


@dataclass(frozen=True)
class Implementation:
    """What is recorded: the factory of `impl`, with a map of its modules' `names`, or ours under `backend`.

    `model` is the checkpoint of a captured case, or the tokenizer of one of texts; `taps` are globs and sets of taps.
    """

    impl: str | None = None
    names: Path | None = None
    backend: str = "eager"
    model: Path | None = None
    checkpoints: Path = CHECKPOINTS
    taps: Sequence[str] = ()


def record_case(golden: Path, path: Path, implementation: Implementation) -> dict[str, ParityError]:
    """Record an implementation on a golden's case, into `path`; what a module has in a form of its own, by pattern.

    Raises `ParityError` for a golden without a network, for a checkpoint that is missing or another one, and for an
    implementation that fails.
    """
    reference = read(golden)
    refuse_weights(reference)
    build = factory_of(reference, implementation.impl, implementation.backend)
    if reference.case.mode == pb.TOKENIZATION:
        record_tokenization(reference, path, build, directory=implementation.model)
        return {}
    model, checkpoints = implementation.model, implementation.checkpoints
    globs, any_model = globs_of(implementation.taps, reference.case), reference.case.mode == pb.GRAPH
    if any_model and checkpoints == CHECKPOINTS:
        checkpoints = checkpoints_of(golden)
    beside = directory_of(reference, checkpoints, model) if any_model else None
    directories = {"model": beside} if beside else checkpoint_directories(reference.case, checkpoints, model)
    with recorder.foreign_code(reference.case):
        built = build(reference.case, directories)
    if beside is None:  # behind what a loader says of a damaged one
        refuse_others(reference.case, checkpoints, model)
    if not isinstance(built, nn.Module):
        recorder.record(reference, path, lambda *_: built, checkpoints=checkpoints, model=model, taps=globs)
        return {}
    case = Case(golden, reference, model)
    with recorder.foreign_code(reference.case), warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOut)  # the caller says it
        with record_module(built, case, implementation.names, path, globs) as recording:
            run(built, case)
    left_out: dict[str, ParityError] = recording.left_out
    return left_out
