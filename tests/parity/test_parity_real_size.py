"""The full road at real size: a seeded checkpoint of Qwen3-0.6B's exact shape, captured, recorded, checked, diagnosed.

`make slow` runs it; it needs about 8 GB of memory and 6 GB of disk, and prints what each command took.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from detection.real_size import written
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import pb, read
from qwen3_parity.recording.ours.network import EncoderDecoder, factory
from qwen3_parity.recording.record import record


@pytest.fixture(params=["float32", "bfloat16"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A seeded checkpoint directory and its dtype."""
    return written(tmp_path / "qwen3-0.6b-shape", request.param), request.param


def run(*arguments: object) -> str:
    """A command of ours in a process of its own; prints its seconds and its peak resident memory."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "qwen3_parity", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    print(f"\n{arguments[0]}: {seconds:.1f} s, peak {usage.ru_maxrss / 1e6:.2f} GB resident")
    assert process.returncode == 0, text
    return text


SOURCE = (
    "When in the course of porting a network it becomes necessary for one people to dissolve the numerical bonds which "
    "have connected them with another, and to assume among the powers of the earth the separate and equal station to "
    "which the laws of arithmetic entitle them, a decent respect to the opinions of mankind requires that they should "
    "declare the causes: 1e-6 ≠ 1e-5."
)
TARGET = "Nous tenons ces vérités pour évidentes: 四捨五入 rounds to even."


def request_() -> tuple[object, ...]:
    """64 tokens in, and a dozen to decode: text with the real tokenizer where it is to be had, otherwise ids."""
    data = os.environ.get("QWEN3_PARITY_DATA")
    if data:
        return "--source", SOURCE, "--target", TARGET, "--tokenizer", Path(data) / "qwen3-tokenizer", "--prefill", 12
    draw = np.random.Generator(np.random.PCG64(64))
    source, target = (",".join(map(str, draw.integers(0, 151643, count))) for count in (64, 16))
    return "--source-ids", source, "--target-ids", target, "--prefill", 12


@pytest.mark.slow
def test_the_whole_road_at_the_size_of_qwen3_0_6b(checkpoint: tuple[Path, str], tmp_path: Path) -> None:
    directory, dtype = checkpoint
    run("capture", "--model", directory, "--out", tmp_path / "real.pb", *request_(), "--dtype", dtype, "--yes")
    golden, candidate = tmp_path / "real.pb", tmp_path / "ours.pb"
    for backend in ("eager", "sdpa"):
        run("record", golden, "--model", directory, "--backend", backend, "--out", candidate)
        shown = json.loads(run("check", golden, candidate, "--json"))
        print(
            f"{dtype}, {backend}: {shown['verdict']}, {shown['compared']} of {shown['of']} taps, worst {shown['worst']}"
        )
        assert shown["verdict"] == "parity"
        assert shown["compared"] > 28 * 2 * 20 and (shown["compared"] == shown["of"]) is (backend == "eager")
    inputs = read(golden)["input.encoder_input_ids", 0].array
    print(f"{inputs.shape[1]} tokens in, steps {list(read(golden).case.steps)}, {golden.stat().st_size / 1e6:.0f} MB")
    assert inputs.shape[1] >= 64


TOKENS, LARGER = 64, 2


def seeded(case: pb.Case, checkpoints: Mapping[str, Path]) -> EncoderDecoder:
    """Our model with a weight of the next layer, a scale 0.1 % off and an eps ten times too large."""
    runner = factory()(case, checkpoints)
    assert isinstance(runner, EncoderDecoder)
    decoder = runner.model.decoder.layers
    with torch.no_grad():
        decoder[5].mlp.up_proj.weight.copy_(decoder[6].mlp.up_proj.weight)
    decoder[9].merged_attn.scaling *= 1.001
    runner.model.encoder.layers[3].input_layernorm.variance_epsilon *= 10
    return runner


def bare_forward(directory: Path, golden: Path) -> float:
    """Seconds of one float32 forward of both stacks on the golden's tokens, the best of three."""
    model = load_qwen3(directory)
    names = ("input.encoder_input_ids", "input.decoder_input_ids")
    encoder, decoder = (torch.from_numpy(read(golden)[name, 0].array.copy()) for name in names)
    seconds = []
    with torch.no_grad():
        for _ in range(3):
            start = time.perf_counter()
            model(input_ids=encoder, decoder_input_ids=decoder)
            seconds.append(time.perf_counter() - start)
    return min(seconds)


def diagnosed(*arguments: object) -> tuple[dict[str, Any], float, int]:
    """What `diagnose` says in a process of its own, its seconds and its peak anonymous memory in bytes."""
    command = [sys.executable, "-m", "qwen3_parity", "diagnose", *map(str, arguments), "--json"]
    start, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.extend(process.communicate()))
        reader.start()
        while reader.is_alive():
            try:
                memory = psutil.Process(process.pid).memory_info()
                peak = max(peak, memory.rss - memory.shared)
            except psutil.Error:
                pass
            reader.join(0.02)
    return json.loads(said[0]), time.perf_counter() - start, peak


@pytest.mark.slow
def test_three_mistakes_at_the_size_of_qwen3_0_6b_are_named(tmp_path: Path) -> None:
    directory = written(tmp_path / "qwen3-0.6b-shape", "float32")
    size = (directory / "model.safetensors").stat().st_size
    draw = np.random.Generator(np.random.PCG64(64))
    source, target = (",".join(map(str, draw.integers(0, 151643, TOKENS))) for _ in range(2))
    ids = ("--source-ids", source, "--target-ids", target, "--prefill", TOKENS)
    run("capture", "--model", directory, "--out", tmp_path / "real.pb", *ids, "--yes")
    golden, candidate = tmp_path / "real.pb", tmp_path / "mutant.pb"
    record(read(golden), candidate, seeded, model=directory)
    forward = bare_forward(directory, golden)
    diagnosis, seconds, peak = diagnosed(golden, candidate, "--model", directory)
    ratio = seconds / forward
    print(f"\nforward {forward:.2f} s; diagnose {seconds:.1f} s, {ratio:.1f} × it; {peak / 1e9:.2f} GB anonymous")
    assert {fault["place"]: fault["explanations"][0]["name"] for fault in diagnosis["faults"]} == {
        "encoder.layers.{layer}.input_layernorm": "norm.eps",
        "decoder.layers.{layer}.merged_attn.scores": "scores.scale",
        "decoder.layers.{layer}.mlp.up_proj": "weight.other_tensor",
    }
    assert peak <= LARGER * size
    page = tmp_path / "page.html"
    start = time.perf_counter()
    report = [sys.executable, "-m", "qwen3_parity", "report", golden, candidate, "--model", directory, "--out", page]
    done = subprocess.run(list(map(str, report)), capture_output=True, text=True, check=False)
    print(f"report: {time.perf_counter() - start:.1f} s, a page of {page.stat().st_size / 1e6:.2f} MB")
    assert done.returncode == 1 and page.stat().st_size <= 10_000_000, done.stderr
