"""Our implementation on the case of a golden, with a fault seeded in it, and what the judge says of the recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pb, read, tensor
from qwen3_parity import check
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.ours.network import EncoderDecoder, factory, golden_dtype
from qwen3_parity.recording.record import record

Seed = Callable[[EncoderDecoder], None]


def _nothing(_runner: EncoderDecoder) -> None:
    pass


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Recording]:
    """A committed golden by the name of its case, read once."""
    known: dict[str, Recording] = {}

    def get(name: str) -> Recording:
        if name not in known:
            known[name] = read(GOLDEN_ROOT / "cases" / f"{name}.pb")
        return known[name]

    return get


@pytest.fixture(scope="session")
def networks() -> dict[str, Recording]:
    """Every committed golden of a whole network, by the name of its case."""
    recordings = (read(path) for path in sorted((GOLDEN_ROOT / "cases").rglob("*.pb")))
    return {
        recording.case.name: recording
        for recording in recordings
        if recording.case.mode in (pb.ENCODER, pb.CAUSAL, pb.ENCODER_DECODER)
    }


@pytest.fixture
def recorded(golden: Callable[[str], Recording], tmp_path: Path) -> Callable[..., Recording]:
    """`recorded(case or golden, seed)`: our recording, after `seed(runner)` was done to the loaded model."""

    def run(case: str | Recording, seed: Seed = _nothing, backend: str = "eager") -> Recording:
        expected = golden(case) if isinstance(case, str) else case

        def build(message: pb.Case, checkpoints: Mapping[str, Path]) -> EncoderDecoder:
            runner = factory(backend, golden_dtype(expected))(message, checkpoints)
            assert isinstance(runner, EncoderDecoder)
            seed(runner)
            return runner

        path = tmp_path / f"{expected.case.name}.pb"
        record(expected, path, build, digests=False)
        return read(path)

    return run


@pytest.fixture
def judged(golden: Callable[[str], Recording], recorded: Callable[..., Recording]) -> Callable[..., Verdicts]:
    """`judged(case or golden, seed)`: the verdicts on `recorded(case or golden, seed)`."""

    def run(case: str | Recording, seed: Seed = _nothing, backend: str = "eager") -> Verdicts:
        expected = golden(case) if isinstance(case, str) else case
        return check(expected, recorded(expected, seed, backend))

    return run


@pytest.fixture(scope="session")
def with_array() -> Callable[..., Tensor]:
    """`with_array(tensor, array)`: the tensor with other elements, everything else kept, its floor left out."""

    def swap(item: Tensor, array: object) -> Tensor:
        info = item.info
        return tensor(info.name, array, step=info.step, dtype=info.dtype, axes=info.axes, op=info.op)  # type: ignore[arg-type]

    return swap
