"""One request along different paths: at once, in chunks, token by token; alone and recorded; other kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pb, read
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import checkpoint_directories
from qwen3_parity.judge.compare import compare
from qwen3_parity.recording.ours.network import EncoderDecoder, factory
from qwen3_parity.recording.record import inputs_of, record

CASES = ["encdec/ragged", "encdec/window", "encdec/unrotated", "decoder/ragged_decode", "decoder/window_chunks"]


def golden(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb")


def runner(recording: Recording, backend: str = "eager") -> EncoderDecoder:
    built = factory(backend)(recording.case, checkpoint_directories(recording.case, GOLDEN_ROOT / "checkpoints"))
    assert isinstance(built, EncoderDecoder)
    return built


def logits(recording: Recording, steps: list[int]) -> Array:
    """Our logits `[batch, total, vocab]` on a golden's inputs, decoded in these steps."""
    case = pb.Case.FromString(recording.case.SerializeToString())
    case.max_new_tokens = 0
    case.steps[:] = steps
    taken: list[torch.Tensor] = []
    run = runner(recording)
    run(case, inputs_of(recording), lambda _n, _s, value: taken.append(value), lambda name: name == "logits")
    return torch.cat(taken, dim=1).numpy()


def expected(recording: Recording) -> tuple[Array, pb.Floor]:
    """The golden's logits over all steps, and the largest floor of any step."""
    taps = [recording["logits", step] for step in range(len(recording.case.steps))]
    floors = [tap.info.floor for tap in taps]
    floor = pb.Floor(rms=max(f.rms for f in floors), max=max(f.max for f in floors), row=max(f.row for f in floors))
    return np.concatenate([tap.array for tap in taps], axis=1), floor


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("path", ["at once", "chunks of three", "token by token"])
def test_every_path_through_a_request_gives_the_goldens_logits(name: str, path: str) -> None:
    recording = golden(name)
    total = sum(recording.case.steps)
    chunks = [3] * (total // 3) + ([total % 3] if total % 3 else [])
    steps = {"at once": [total], "chunks of three": chunks, "token by token": [1] * total}[path]
    golden_logits, floor = expected(recording)
    real = inputs_of(recording)["input.decoder_attention_mask"]
    metrics = compare(logits(recording, steps), golden_logits, real[:, :, None], axes=("batch", "query", "vocab"))
    assert metrics.rms <= 4 * floor.rms
    assert metrics.max <= 8 * floor.max
    assert metrics.row <= 8 * floor.row


@torch.no_grad()
def bare_logits(recording: Recording) -> list[torch.Tensor]:
    """The logits of each step by a model that nothing is attached to."""
    model = runner(recording).model
    model.set_attn_implementation("eager")
    inputs = {name.removeprefix("input."): torch.from_numpy(a.copy()) for name, a in inputs_of(recording).items()}
    encoder = {"attention_mask": inputs["encoder_attention_mask"], "position_ids": inputs["encoder_position_ids"]}
    encoded = model.encoder(input_ids=inputs["encoder_input_ids"], **encoder)
    outputs, cache, start = [], None, 0
    for length in recording.case.steps:
        stop = start + length
        output = model(
            encoder_outputs=encoded,
            **encoder,
            decoder_input_ids=inputs["decoder_input_ids"][:, start:stop],
            decoder_attention_mask=inputs["decoder_attention_mask"][:, :stop],
            decoder_position_ids=inputs["decoder_position_ids"][:, start:stop],
            past_key_values=cache,
            use_cache=True,
        )
        outputs.append(output.logits)
        cache, start = output.past_key_values, stop
    return outputs


@pytest.mark.parametrize("name", ["encdec/ragged", "encdec/window"])
def test_recording_leaves_the_bits_of_our_logits_unchanged(name: str) -> None:
    recording = golden(name)
    taken: list[torch.Tensor] = []
    run = runner(recording)
    run(
        recording.case,
        inputs_of(recording),
        lambda tap, _step, value: taken.append(value) if tap == "logits" else None,
        lambda tap: True,
    )
    bare = bare_logits(recording)
    assert len(bare) == len(taken) > 0
    assert all(torch.equal(a, b) for a, b in zip(taken, bare, strict=True))


@pytest.mark.parametrize("name", ["encdec/ragged", "encdec/window", "decoder/window_chunks", "encoder/ragged"])
def test_sdpa_is_within_budget(name: str, tmp_path: Path) -> None:
    record(golden(name), tmp_path / "sdpa.pb", factory("sdpa"))
    verdicts = check(GOLDEN_ROOT / "cases" / f"{name}.pb", tmp_path / "sdpa.pb")
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))
    assert 0 < verdicts.compared < verdicts.of  # scores and probs do not exist there, and that is said


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["default", "avx2"])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_other_kernels_and_threads_are_within_budget(capability: str, threads: str, tmp_path: Path) -> None:
    environment = os.environ | {"ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": threads}
    command = [sys.executable, "-m", "qwen3_parity", "parity", "--out", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
