"""An engine in float32 whose weights a half-precision golden's run had rounded: its ops are judged on its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pb, read
from qwen3_parity.blame.held import UNROUNDED, held
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.judge.match import digest
from qwen3_parity.recording.record import record

sys.path.insert(0, str(GOLDEN_ROOT.parent / "examples"))
import numpy_port

CASE = "llama/bfloat16"


@cache
def golden() -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{CASE}.pb", digests=True)


@cache
def weights() -> Mapping[str, Array]:
    return weights_of(golden(), GOLDEN_ROOT / "checkpoints")


@pytest.fixture(scope="module")
def float32(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The NumPy port: it loads the checkpoint's float32 weights as they are."""
    path = tmp_path_factory.mktemp("float32") / "port.pb"
    record(golden(), path, numpy_port.factory)
    return read(path, digests=True)


def test_it_is_right_in_the_run_and_in_every_op(float32: Recording) -> None:
    verdicts = check(golden(), float32, weights())
    assert not verdicts.exit_code and verdicts.notes == (UNROUNDED,)
    assert not diagnose(golden(), float32, weights()).faults


def test_other_bytes_are_those_that_the_run_rounded(float32: Recording) -> None:
    mine = held(float32, weights(), golden())
    parameters = [
        pb.Parameter(name=item.name, shape=item.shape, dtype=pb.F32, sha256=digest(mine[item.name]))
        for item in golden().parameters
    ]
    assert not check(golden(), replace(float32, parameters=parameters), weights()).exit_code
    parameters[0].sha256 = b"\0" * 32
    (problem,) = check(golden(), replace(float32, parameters=parameters), weights()).structural
    assert problem.got == "1 × other bytes"


def test_what_it_does_wrong_besides_is_blamed_alone(
    float32: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_port, "rotate", lambda x, cos, sin: x * cos[:, None] - np.roll(x, 1, -1) * sin[:, None])
    record(golden(), tmp_path / "wrong.pb", numpy_port.factory)
    faults = diagnose(golden(), read(tmp_path / "wrong.pb"), weights(), work=1e8).faults
    assert {fault.fault.place.rpartition(".")[2] for fault in faults} == {"q_rope", "k_rope"}


def test_weights_that_were_rounded_as_the_run_rounds_them_are_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = numpy_port.stored
    monkeypatch.setattr(numpy_port, "stored", lambda directory: ((n, in_bfloat16(x)) for n, x in stored(directory)))
    record(golden(), tmp_path / "rounded.pb", numpy_port.factory)
    rounded = read(tmp_path / "rounded.pb")
    assert held(rounded, weights(), golden()) is weights()
    assert not check(golden(), rounded, weights()).exit_code


def in_bfloat16(x: Array) -> Array:
    return torch.from_numpy(np.array(x, np.float32)).bfloat16().float().numpy()
